// EdgeTier's version, as package.json has it too: the Worker does not carry that along.

export const VERSION = "0.1.0";
