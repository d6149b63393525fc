/**
 * Postfix of the Debian package, as an instance of its own: configuration, queue and data below the bench's
 * folder, on a free port, relaying everything to the sink. Nothing of the system's own instance is read or
 * touched. Every limit that would slow it is lifted; it answers after its queue file is on the disk, as
 * always.
 */
import { spawn, spawnSync } from "node:child_process";
import { chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../src/embedded/port.ts";
import type { Bench } from "../machine.ts";
import { endChild } from "../sink.ts";
import { expectSmtpSource, NotHere, type Peer, untilGreeted } from "./peer.ts";

const DAEMONS = "/usr/lib/postfix/sbin";
const FILES = "/etc/postfix/postfix-files";

function mainCf(folder: string, sinkPort: number): string {
  return `compatibility_level = 3.6
queue_directory = ${folder}/queue
data_directory = ${folder}/data
daemon_directory = ${DAEMONS}
command_directory = /usr/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = postfix.bench.example.com
mydestination =
local_recipient_maps =
alias_maps =
alias_database =
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
smtpd_peername_lookup = no
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_tls_security_level = none
smtp_tls_security_level = none
smtp_dns_support_level = disabled
relayhost = [127.0.0.1]:${sinkPort}
# nothing that slows it: as many processes and connections as it wants, kept open, no throttle on what comes in
default_process_limit = 200
smtpd_client_connection_count_limit = 0
in_flow_delay = 0
initial_destination_concurrency = 50
default_destination_concurrency_limit = 50
smtp_connection_cache_destinations = [127.0.0.1]:${sinkPort}
smtp_connection_reuse_count_limit = 0
qmgr_message_active_limit = 100000
qmgr_message_recipient_limit = 100000
`;
}

function masterCf(port: number): string {
  return `127.0.0.1:${port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
local unix - n n - - local
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
`;
}

export const postfix: Peer = {
  name: "Postfix",
  async start(bench: Bench) {
    if (!existsSync(join(DAEMONS, "master")))
      throw new NotHere("the Debian package postfix is not installed");
    expectSmtpSource();
    if (process.getuid?.() !== 0) throw new NotHere("its master runs as root only");
    const folder = join(bench.folder, "postfix");
    const config = join(folder, "config");
    for (const one of [folder, config, join(folder, "queue"), join(folder, "data")]) mkdirSync(one);
    chownSync(join(folder, "data"), idOf("postfix"), 0);
    const port = await freePort();
    const [main, master] = [mainCf(folder, bench.sink.port), masterCf(port)];
    writeFileSync(join(config, "main.cf"), main);
    writeFileSync(join(config, "master.cf"), master);
    writeFileSync(join(config, "postfix-files"), readFileSync(FILES));
    makeQueue(config);
    const child = spawn(join(DAEMONS, "master"), ["-c", config, "-d"], {
      stdio: "ignore",
      detached: true,
      env: { PATH: "/usr/sbin:/usr/bin:/bin", MAIL_CONFIG: config },
    });
    const stop = bench.endings.add(() => endChild(child));
    await untilGreeted("Postfix", port, child);
    return {
      intake: { kind: "smtp", port },
      processes: [{ name: "postfix", pid: child.pid as number }],
      exhibits: [{ name: `Postfix ${postfixVersion()}: main.cf and master.cf`, text: `${main}\n${master}` }],
      stop,
    };
  },
};

/** null: it is not installed. */
export function postfixVersion(): string | null {
  return /= (.*)/.exec(said("postconf", "-d", "mail_version"))?.[1] ?? null;
}

/** Postfix makes its own queue folders, with the owners it wants. */
function makeQueue(config: string): void {
  const { status, stderr } = spawnSync("postfix", ["-c", config, "check"], { encoding: "utf8" });
  if (status !== 0) throw new Error(`postfix check: ${stderr}`);
}

function idOf(user: string): number {
  return Number(said("id", "-u", user));
}

function said(program: string, ...args: string[]): string {
  return (spawnSync(program, args, { encoding: "utf8" }).stdout ?? "").trim();
}
