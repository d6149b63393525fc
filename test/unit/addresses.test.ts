/** Which addresses mail may be carried to. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { isPublic, mayCarryTo } from "../../src/networks.ts";

test.each([
  "0.0.0.0",
  "0.1.2.3",
  "10.0.0.1",
  "100.64.0.1",
  "100.127.255.255",
  "127.0.0.1",
  "127.255.255.255",
  "169.254.169.254",
  "172.16.0.1",
  "172.31.255.255",
  "192.0.0.8",
  "192.0.2.1",
  "192.31.196.1",
  "192.52.193.1",
  "192.88.99.1",
  "192.175.48.1",
  "192.168.1.1",
  "198.18.0.1",
  "198.19.255.255",
  "198.51.100.7",
  "203.0.113.9",
  "224.0.0.1",
  "239.255.255.255",
  "240.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::127.0.0.1",
  "::ffff:127.0.0.1",
  "::ffff:8.8.8.8",
  "64:ff9b::7f00:1",
  "64:ff9b:1::a00:1",
  "100::1",
  "2001::1",
  "2001:10::1",
  "2001:db8::1",
  "2002:7f00:1::",
  "2002:808:808::1",
  "3fff::1",
  "5f00::1",
  "fc00::1",
  "fd12:3456::1",
  "fe80::1",
  "fe80::1%eth0",
  "fec0::1",
  "ff02::1",
  "0127.0.0.1",
  "127.1",
  "2130706433",
  "0x7f.0.0.1",
  "mx.example.com",
  "",
])("no mail goes to %s", (address) => {
  expect(isPublic(address)).toBe(false);
});

/** Where clouds serve metadata, credentials and names to their machines. */
test.each([
  ["most clouds", "169.254.169.254"],
  ["AWS, tasks of ECS", "169.254.170.2"],
  ["AWS, pods of EKS", "169.254.170.23"],
  ["AWS, time", "169.254.169.123"],
  ["AWS, DNS", "169.254.169.253"],
  ["Azure, host", "168.63.129.16"],
  ["Alibaba", "100.100.100.200"],
  ["Alibaba, DNS", "100.100.2.136"],
  ["Oracle, classic", "192.0.0.192"],
  ["Tencent", "169.254.0.23"],
  ["DigitalOcean, anchor", "10.10.0.5"],
  ["Tailscale", "100.100.100.100"],
  ["AWS over IPv6", "fd00:ec2::254"],
  ["AWS over IPv6, names", "fd00:ec2::253"],
  ["AWS over IPv6, pods of EKS", "fd00:ec2::23"],
  ["Google over IPv6", "fd20:ce::254"],
  ["Oracle over IPv6", "fd00:c1::a9fe:a9fe"],
  ["link-local over IPv6", "fe80::a9fe:a9fe"],
  ["Scaleway over IPv6", "fd00:42::42"],
])("%s: %s is no receiver, however it is written", (_, address) => {
  const may = mayCarryTo([], () => []);
  const forms = address.includes(":") ? [address, `${address}%eth0`] : [address, ...wrapped(address)];
  for (const form of forms) expect(may(form), form).toBe(false);
});

/** In the forms of IPv6 that lead to an IPv4 address somewhere, or look like it. */
function wrapped(address: string): string[] {
  const bytes = address.split(".").map(Number);
  const words = (some: readonly number[]) =>
    Buffer.from(some)
      .toString("hex")
      .replace(/^(.{4})/, "$1:");
  const plain = words(bytes);
  const inverted = words(bytes.map((byte) => byte ^ 255));
  return [
    `::ffff:${address}`,
    `::ffff:${plain}`,
    `0:0:0:0:0:ffff:${plain}`,
    `::${address}`,
    `::ffff:0:${plain}`,
    `64:ff9b::${address}`,
    `64:ff9b::${plain}`,
    `64:ff9b:1::${plain}`,
    `2002:${plain}::`,
    `2002:${plain}::${plain}`,
    `2001:0:4136:e378:8000:63bf:${inverted}`,
    `fe80::5efe:${plain}`,
  ];
}

test.each([
  "1.1.1.1",
  "8.8.8.8",
  "9.255.255.255",
  "11.0.0.0",
  "100.63.255.255",
  "100.128.0.0",
  "126.255.255.255",
  "128.0.0.1",
  "168.63.129.15",
  "168.63.129.17",
  "172.15.255.255",
  "172.32.0.0",
  "192.0.1.1",
  "198.17.255.255",
  "198.20.0.0",
  "223.255.255.255",
  "2001:200::1",
  "2001:4860:4860::8888",
  "2003::1",
  "2606:4700:4700::1111",
  "2a00:1450:4001::1b",
])("mail goes to %s", (address) => {
  expect(isPublic(address)).toBe(true);
});

test("what is allowed may be reached, and nothing beside it", () => {
  const may = mayCarryTo(
    [
      { address: "10.1.0.0", prefix: 16 },
      { address: "fd00:1::", prefix: 32 },
    ],
    () => [],
  );
  expect(["10.1.255.255", "fd00:1::5", "8.8.8.8"].map(may)).toEqual([true, true, true]);
  expect(["10.2.0.0", "fd00:2::5", "127.0.0.1", "::ffff:10.2.0.1"].map(may)).toEqual([
    false,
    false,
    false,
    false,
  ]);
});

test("mail does not come back to our own addresses", () => {
  const may = mayCarryTo([], () => ["8.8.8.8", "2a00::1"]);
  expect(["8.8.8.8", "8.8.4.4", "2a00::1", "2a00::2"].map(may)).toEqual([false, true, false, true]);
});

test("no IPv4 address in any wrapping of IPv6 is reached", () => {
  fc.assert(
    fc.property(fc.ipV4(), (address) => {
      const [a, b, c, d] = address.split(".").map((one) => Number(one).toString(16).padStart(2, "0"));
      const words = `${a}${b}:${c}${d}`;
      for (const wrapped of [`::ffff:${words}`, `::${words}`, `64:ff9b::${words}`, `2002:${words}::1`])
        expect(isPublic(wrapped)).toBe(false);
    }),
  );
});
