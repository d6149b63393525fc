/**
 * A validating resolver (Debian's unbound) over zones of a test's own, each signed, signed with another key
 * than the resolver trusts, or not signed. It asks nobody else.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../src/embedded/port.ts";
import type { DnsServerAt } from "../../src/transport/dnsquery.ts";

const UNBOUND = "/usr/sbin/unbound";
const SIGNER = "/usr/bin/ldns-signzone";
const START_MS_MAX = 60_000;

export type SignedZone = {
  name: string;
  /** Without SOA and NS, as in a zone file; names are relative to the zone. */
  records: readonly string[];
  isSigned: boolean;
  /** The resolver trusts another key. */
  isBroken?: boolean;
  /** Changes the zone after it was signed. */
  forge?(text: string): string;
};

/** Why it cannot run here; null: it can. */
export function unboundMissing(): string | null {
  return existsSync(UNBOUND) && existsSync(SIGNER)
    ? null
    : "unbound and ldnsutils are not here: apt-get install unbound ldnsutils";
}

export type Unbound = DnsServerAt & { stop(): Promise<void> };

export async function startUnbound(zones: readonly SignedZone[], address = "127.0.0.1"): Promise<Unbound> {
  const folder = mkdtempSync(join(tmpdir(), "postrider-unbound-"));
  const port = await freePort(address);
  const anchors = zones.flatMap((zone) => write(folder, zone));
  writeFileSync(join(folder, "anchors"), anchors.join("\n"));
  writeFileSync(join(folder, "unbound.conf"), configured(folder, zones, address, port));
  const child = spawn(UNBOUND, ["-d", "-d", "-c", join(folder, "unbound.conf")], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  const started = new Promise<void>((resolve, reject) => {
    const hear = (chunk: Buffer): void => {
      said += chunk;
      if (said.includes("start of service")) resolve();
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("exit", () => reject(new Error(`unbound ended:\n${said}`)));
    setTimeout(() => reject(new Error(`unbound did not start:\n${said}`)), START_MS_MAX).unref();
  });
  await started;
  return {
    address,
    port,
    async stop() {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/** Hands back what the resolver is to trust. */
function write(folder: string, { name, records, isSigned, isBroken = false, forge }: SignedZone): string[] {
  const file = join(folder, name);
  const head = [
    `$ORIGIN ${name}.`,
    "$TTL 60",
    `@ SOA ns.${name}. root.${name}. 1 60 60 60 60`,
    "@ NS ns",
    "ns A 127.0.0.1",
  ];
  writeFileSync(file, `${[...head, ...records].join("\n")}\n`);
  if (!isSigned) return [];
  const [trusted = "", used = ""] = [makeKey(folder, name), makeKey(folder, name)];
  execFileSync(SIGNER, ["-f", file, file, isBroken ? used : trusted], { cwd: folder });
  if (forge) writeFileSync(file, forge(readFileSync(file, "utf8")));
  return [readFileSync(join(folder, `${trusted}.key`), "utf8").trim()];
}

function makeKey(folder: string, name: string): string {
  return execFileSync("ldns-keygen", ["-a", "ECDSAP256SHA256", "-k", "-r", "/dev/urandom", name], {
    cwd: folder,
    encoding: "utf8",
  }).trim();
}

function configured(folder: string, zones: readonly SignedZone[], address: string, port: number): string {
  return `server:
  interface: ${address}@${port}
  access-control: 127.0.0.0/8 allow
  chroot: ""
  username: ""
  directory: "${folder}"
  pidfile: ""
  use-syslog: no
  logfile: ""
  verbosity: 1
  num-threads: 1
  do-ip6: no
  module-config: "validator iterator"
  trust-anchor-file: "${folder}/anchors"
  local-zone: "test." nodefault
remote-control:
  control-enable: no
${zones
  .map(
    ({ name }) => `auth-zone:
  name: "${name}"
  zonefile: "${folder}/${name}"
  for-upstream: yes
  for-downstream: no
  fallback-enabled: no
`,
  )
  .join("")}`;
}
