// A client's address, as something to count requests by.

const IPV4 = /^\d{1,3}(\.\d{1,3}){3}$/;
const IPV6_NETWORK_GROUPS = 4;

/** @param header may name several addresses: the nearest proxy has added the last one, and the others can be made up */
export const parseClientAddress = (header: string | undefined): string | undefined =>
  toNetwork(header?.split(",").at(-1)?.trim());

/** @returns an IPv4 address, or the /64 of an IPv6 one, since a client has all of that; undefined for what is neither */
function toNetwork(address: string | undefined): string | undefined {
  if (address === undefined || IPV4.test(address)) return address;
  const mapped = /^::ffff:([\d.]+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return toNetwork(mapped);
  if (!/^[0-9a-f:]{2,39}$/i.test(address) || !address.includes(":")) return undefined;
  const [head = "", tail] = address.split("::");
  const groups = groupsOf(head);
  const rest = tail === undefined ? [] : groupsOf(tail);
  const zeros = Array.from({ length: Math.max(0, 8 - groups.length - rest.length) }, () => "0");
  return [...groups, ...zeros, ...rest]
    .slice(0, IPV6_NETWORK_GROUPS)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":");
}

const groupsOf = (text: string): string[] => text.split(":").filter((group) => group !== "");
