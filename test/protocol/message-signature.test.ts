import { messageSignatureContract } from "../contract/message-signature.ts";

messageSignatureContract();
