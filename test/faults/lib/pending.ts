// What the running system does not have yet: scenarios that need it are left out, with the reason given here. Whoever
// builds it takes its line away, and the compiler then shows the scenarios.
export const pending = {
  packedBodies: "content-encoding under /v1",
  tinyChunks: "bodies in chunks of a byte without garbage: one of 65,537 bytes takes workerd up to 200 MiB, and a region 60",
  secondRegion: "EDGETIER_REGIONS: several regions, hedging, breakers",
  apiKeys: "EDGETIER_API_KEYS: callers and tenants",
  jwt: "EDGETIER_JWT_*: tokens of an issuer",
  regionKeys: "EDGETIER_REGION_KEYS: signed requests of the edge to the region",
} as const;
