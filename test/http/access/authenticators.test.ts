// Authenticators: the contract of all drivers.
import { allAuthenticatorContracts } from "../../contract/authenticators.ts";

allAuthenticatorContracts("");
