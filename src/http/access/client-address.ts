// Client address: parses the address that rate limits count by.

const IPV4 = /^\d{1,3}(\.\d{1,3}){3}$/;
const IPV6_NETWORK_GROUPS = 4;

/** @param header may list several addresses. The nearest proxy adds the last one; clients can forge the others. */
export const parseClientAddress = (header: string | undefined): string | undefined =>
  toNetwork(header?.split(",").at(-1)?.trim());

/** @returns an IPv4 address, or the /64 of an IPv6 address, because one client owns all of it; undefined for other text */
function toNetwork(address: string | undefined): string | undefined {
  if (address === undefined || IPV4.test(address)) return address;
  const mapped = /^::ffff:([\d.]+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return toNetwork(mapped);
  if (!/^[0-9a-f:]{2,39}$/i.test(address) || !address.includes(":")) return undefined;
  const [head = "", tail] = address.split("::");
  const groups = groupsOf(head);
  const tailGroups = tail === undefined ? [] : groupsOf(tail);
  const zeros = Array.from(
    { length: Math.max(0, 8 - groups.length - tailGroups.length) },
    () => "0",
  );
  return [...groups, ...zeros, ...tailGroups]
    .slice(0, IPV6_NETWORK_GROUPS)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":");
}

const groupsOf = (text: string): string[] => text.split(":").filter((group) => group !== "");
