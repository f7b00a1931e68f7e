import { allAuthenticatorContracts } from "../../contract/authenticators.ts";

allAuthenticatorContracts("");
