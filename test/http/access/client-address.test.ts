// Client address: the network that a request counts for.
import { expect, it } from "vitest";
import { parseClientAddress } from "../../../src/http/access/client-address.ts";

it.each([
  ["203.0.113.7", "203.0.113.7"],
  ["::ffff:203.0.113.7", "203.0.113.7"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2"],
  ["2001:0DB8:0001:0002:ffff::1", "2001:db8:1:2"],
  ["2001:db8::1", "2001:db8:0:0"],
  ["::1", "0:0:0:0"],
  ["fe80::", "fe80:0:0:0"],
  ["made.up, 10.0.0.1, 203.0.113.7", "203.0.113.7"],
  ["unknown", undefined],
  ["", undefined],
  [undefined, undefined],
])("maps %s to %s", (header, network) => expect(parseClientAddress(header)).toBe(network));
