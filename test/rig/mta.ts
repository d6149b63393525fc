/**
 * Mail servers of Debian as throw-away instances on loopback: each takes all mail, carries that for the
 * bounce domain to the listener for reports and all other to a sink, and writes its own reports. Nothing of
 * the system's own mail server is touched: each runs in namespaces of its own, where its users, its name and
 * its folders are made up. `.ci/mtas` unpacks them.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type NetConnectOpts, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { fileURLToPath } from "node:url";
import { freePort } from "../../src/embedded/port.ts";
import { selfSigned } from "../../src/smtp/certificate.ts";

const UNPACKED = join(tmpdir(), "postrider-mtas");
const NET = fileURLToPath(new URL("mtanet.mjs", import.meta.url));
const START_MS_MAX = 20_000;
const NAME = "mta.postrider.test";

export type Ports = { own: number; sink: number; inbound: number };
type Plan = {
  /** Files by their names below the folder. */
  files: Record<string, string>;
  /** Users that it expects, by name and id. */
  users?: Record<string, number>;
  /** Shell lines in the namespace; the last one becomes the server and stays in the foreground. */
  script: string;
  /** It leaves its process group: the shell above it ends, and with it all that it began. */
  ownProcesses?: boolean;
  /**
   * It delivers to MX hosts on port 25: it gets a network of its own, and listens there on this port, with
   * TLS.
   */
  ownNetwork?: { tlsPort: number; user: string; password: string };
};

export type MtaKind = {
  name: string;
  /** A file that is there when it can run. */
  program: string;
  /** Whether it also warns of delays soon enough for a test. */
  warns: boolean;
  plan(folder: string, ports: Ports, bounceDomain: string): Plan;
};

const unpacked = (name: string, path: string) => join(UNPACKED, name, "root", path);
/** In the namespace the loader finds its libraries, also for programs that change their user. */
const libraries = (name: string, folder: string, below = "") => `cat > ${folder}/ld.conf <<END
include /etc/ld.so.conf
${unpacked(name, "usr/lib/x86_64-linux-gnu")}
${unpacked(name, `usr/lib/x86_64-linux-gnu/${below}`)}
END
/sbin/ldconfig -X -f ${folder}/ld.conf -C ${folder}/ld.cache
mount --bind ${folder}/ld.cache /etc/ld.so.cache`;

const postfix: MtaKind = {
  name: "Postfix",
  program: "/usr/lib/postfix/sbin/master",
  warns: true,
  plan: (folder, { own, sink, inbound }, bounceDomain) => ({
    files: {
      "config/main.cf": `compatibility_level = 3.6
queue_directory = ${folder}/queue
data_directory = ${folder}/data
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = ${NAME}
mydestination =
local_recipient_maps =
alias_maps =
alias_database =
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
smtpd_relay_restrictions = permit_mynetworks, reject
smtp_dns_support_level = disabled
transport_maps = inline:{ ${bounceDomain}=smtp:[127.0.0.1]:${inbound} }
relayhost = [127.0.0.1]:${sink}
delay_warning_time = 1s
minimal_backoff_time = 1s
queue_run_delay = 1s
`,
      "config/master.cf": `127.0.0.1:${own} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 1 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
flush unix n - n 1000? 0 flush
showq unix n - n - - showq
`,
      "config/postfix-files": existsSync("/etc/postfix/postfix-files")
        ? readFileSync("/etc/postfix/postfix-files", "utf8")
        : "",
    },
    script: `mkdir -p ${folder}/queue ${folder}/data && chown postfix ${folder}/data
export MAIL_CONFIG=${folder}/config
/usr/sbin/postfix -c ${folder}/config check
exec /usr/lib/postfix/sbin/master -c ${folder}/config -d`,
  }),
};

const exim: MtaKind = {
  name: "Exim",
  program: unpacked("exim", "usr/sbin/exim4"),
  warns: true,
  plan: (folder, { own, sink, inbound }, bounceDomain) => ({
    users: { "Debian-exim": 8 },
    files: {
      "exim.conf": `primary_hostname = ${NAME}
exim_path = ${unpacked("exim", "usr/sbin/exim4")}
spool_directory = ${folder}/spool
log_file_path = ${folder}/log-%slog
daemon_smtp_ports = ${own}
local_interfaces = 127.0.0.1
tls_advertise_hosts =
host_lookup =
rfc1413_hosts =
acl_smtp_rcpt = accept_all
delay_warning = 1s
keep_environment =
begin acl
accept_all:
  accept
begin routers
reports:
  driver = manualroute
  domains = ${bounceDomain}
  route_list = * 127.0.0.1
  self = send
  transport = inbound
others:
  driver = manualroute
  route_list = * 127.0.0.1
  self = send
  transport = sink
begin transports
inbound:
  driver = smtp
  port = ${inbound}
  allow_localhost
  hosts_avoid_tls = *
sink:
  driver = smtp
  port = ${sink}
  allow_localhost
begin retry
* * F,1d,1s
`,
    },
    script: `${libraries("exim", folder)}
mkdir -p ${folder}/spool && chown -R 8:8 ${folder}/spool
chown root ${folder}/exim.conf && chmod 644 ${folder}/exim.conf
touch ${folder}/log-mainlog ${folder}/log-paniclog ${folder}/log-rejectlog && chown 8:8 ${folder}/log-* && chown 8:8 ${folder}
exec ${unpacked("exim", "usr/sbin/exim4")} -C ${folder}/exim.conf -bdf -q1s`,
  }),
};

const sendmail: MtaKind = {
  name: "Sendmail",
  program: unpacked("sendmail", "usr/libexec/sendmail/sendmail"),
  warns: true,
  plan: (folder, { own, sink, inbound }, bounceDomain) => ({
    users: { smmta: 8, smmsp: 8 },
    files: {
      services: "hosts files\naliases files\n",
      "sendmail.mc": `divert(0)dnl
OSTYPE(\`linux')dnl
define(\`confDOMAIN_NAME', \`${NAME}')dnl
define(\`QUEUE_DIR', \`${folder}/queue')dnl
define(\`confPID_FILE', \`${folder}/pid')dnl
define(\`STATUS_FILE', \`${folder}/statistics')dnl
define(\`ALIAS_FILE', \`')dnl
define(\`HELP_FILE', \`')dnl
define(\`confTO_QUEUEWARN', \`1s')dnl
define(\`confMIN_QUEUE_AGE', \`0')dnl
define(\`confDONT_PROBE_INTERFACES', \`True')dnl
define(\`confDONT_BLAME_SENDMAIL', \`GroupWritableDirPathSafe,GroupWritableIncludeFileSafe,WorldWritableAliasFile')dnl
define(\`confTO_IDENT', \`0')dnl
define(\`confSERVICE_SWITCH_FILE', \`${folder}/services')dnl
define(\`SMART_HOST', \`sink:[127.0.0.1]')dnl
FEATURE(\`nocanonify')dnl
FEATURE(\`promiscuous_relay')dnl
FEATURE(\`accept_unresolvable_domains')dnl
FEATURE(\`accept_unqualified_senders')dnl
FEATURE(\`no_default_msa')dnl
DAEMON_OPTIONS(\`Addr=127.0.0.1, Port=${own}, Name=MTA')dnl
MAILER(\`smtp')dnl
MAILER_DEFINITIONS
Msink,	P=[IPC], F=mDFMuXa8, S=EnvFromSMTP/HdrFromSMTP, R=EnvToSMTP, E=\\r\\n, L=990, T=DNS/RFC822/SMTP, A=TCP $h ${sink}
Minbound,	P=[IPC], F=mDFMuXa8, S=EnvFromSMTP/HdrFromSMTP, R=EnvToSMTP, E=\\r\\n, L=990, T=DNS/RFC822/SMTP, A=TCP $h ${inbound}
LOCAL_NET_CONFIG
R$* < @ ${bounceDomain} . > $*	$#inbound $@ [127.0.0.1] $: $1 < @ ${bounceDomain} . > $2
R$* < @ ${bounceDomain} > $*	$#inbound $@ [127.0.0.1] $: $1 < @ ${bounceDomain} > $2
`,
    },
    script: `${libraries("sendmail", folder)}
mkdir -p ${folder}/queue && chmod 700 ${folder}/queue && touch ${folder}/statistics
cf=${unpacked("sendmail", "usr/share/sendmail/cf/")}
m4 -D_CF_DIR_=$cf $cf/m4/cf.m4 ${folder}/sendmail.mc > ${folder}/sendmail.cf
exec ${unpacked("sendmail", "usr/libexec/sendmail/sendmail")} -C ${folder}/sendmail.cf -bD -q1s`,
  }),
};

const opensmtpd: MtaKind = {
  name: "OpenSMTPD",
  program: unpacked("opensmtpd", "usr/sbin/smtpd"),
  warns: false,
  plan: (folder, { own, sink, inbound }, bounceDomain) => ({
    users: { opensmtpd: 8, opensmtpq: 13 },
    files: {
      "smtpd.conf": `listen on 127.0.0.1 port ${own} hostname ${NAME}
action "reports" relay host smtp://127.0.0.1:${inbound}
action "others" relay host smtp://127.0.0.1:${sink}
match from any for domain "${bounceDomain}" action "reports"
match from any for any action "others"
`,
    },
    script: `${libraries("opensmtpd", folder)}
mount -t tmpfs none /var/spool && mkdir -p /var/spool/smtpd && chmod 711 /var/spool/smtpd
mount -t tmpfs none /run
mkdir -p /var/lib/opensmtpd/empty 2>/dev/null || true
exec ${unpacked("opensmtpd", "usr/sbin/smtpd")} -d -f ${folder}/smtpd.conf`,
  }),
};

/**
 * Its paths are compiled in, so its files are laid over the system's, as everybody else in the namespace sees
 * them.
 */
const courier: MtaKind = {
  name: "Courier",
  program: unpacked("courier", "usr/sbin/couriertcpd"),
  warns: true,
  plan: (folder, { own, sink, inbound }, bounceDomain) => {
    const root = unpacked("courier", "");
    return {
      ownProcesses: true,
      users: { courier: 8 },
      files: {
        "courier/me": `${NAME}\n`,
        "courier/defaultdomain": `${NAME}\n`,
        "courier/locals": "localhost\n",
        "courier/dsnfrom": `postmaster@${NAME}\n`,
        "courier/warntime": "1s\n",
        "courier/retryalpha": "1s\n",
        "courier/retrygamma": "1s\n",
        "courier/esmtproutes": `${bounceDomain}: [127.0.0.1],${inbound}\n: [127.0.0.1],${sink}\n`,
        "courier/esmtpauthclient": "",
      },
      script: `mkdir ${folder}/etc ${folder}/bin
cp -a ${root}/etc/courier ${folder}/etc/ && cp ${folder}/courier/* ${folder}/etc/courier/
for file in passwd group hosts; do cp ${folder}/$file ${folder}/etc/$file; done
${libraries("courier", folder, "courier-authlib")}
ln -s /usr/lib/courier/makedat ${folder}/bin/makedat
chown 8:8 ${root}/usr/lib/courier/courier/submitmkdir && chmod 4755 ${root}/usr/lib/courier/courier/submitmkdir
cp ${folder}/ld.cache ${folder}/etc/ld.so.cache
mount -t overlay overlay -o lowerdir=${folder}/etc:/etc /etc
mount --bind ${folder}/etc/courier /etc/courier
mount -t overlay overlay -o lowerdir=${folder}/bin:${root}/usr/bin:/usr/bin /usr/bin
for path in usr/lib usr/sbin usr/share var/lib; do mount -t overlay overlay -o lowerdir=${root}/$path:/$path /$path; done
mount -t tmpfs none /run && mkdir /run/courier
mount -t tmpfs none /var/lib/courier && cd /var/lib/courier
mkdir -p allfilters filters msgq msgs tmp/broken track && chown -R 8:8 . /run/courier
cd /usr
/usr/sbin/makesmtpaccess && /usr/sbin/makealiases
/usr/sbin/courierfilter start
/usr/sbin/courier start
set -a; . /etc/courier/esmtpd; BOFHCHECKDNS=0; TARPIT=0; set +a
/usr/sbin/couriertcpd -user=courier -group=courier -address=127.0.0.1 -access=/etc/courier/smtpaccess.dat \\
  -maxprocs=40 -maxperc=40 -maxperip=40 -nodnslookup -noidentlookup ${own} /usr/sbin/courieresmtpd`,
    };
  },
};

const chasquid: MtaKind = {
  name: "chasquid",
  program: unpacked("chasquid", "usr/bin/chasquid"),
  warns: false,
  plan: (folder) => {
    const own = "own.test";
    const { cert, key } = selfSigned(NAME, Date.now());
    return {
      ownNetwork: { tlsPort: 465, user: `acme@${own}`, password: "secret" },
      files: {
        "etc/chasquid.conf": `hostname: "${NAME}"
submission_over_tls_address: "127.0.0.1:465"
data_dir: "${folder}/data"
mail_log_path: "<stderr>"
`,
        [`etc/certs/${NAME}/fullchain.pem`]: cert,
        [`etc/certs/${NAME}/privkey.pem`]: key,
        [`etc/domains/${own}/keep`]: "",
        "resolv.conf": "nameserver 127.0.0.1\n",
      },
      script: `mount --bind ${folder}/resolv.conf "$(readlink -f /etc/resolv.conf)"
${unpacked("chasquid", "usr/bin/chasquid-util")} -C=${folder}/etc user-add acme@${own} --password=secret
exec ${unpacked("chasquid", "usr/bin/chasquid")} -config_dir=${folder}/etc -v=1`,
    };
  },
};

export const MTAS: readonly MtaKind[] = [postfix, exim, sendmail, opensmtpd, courier, chasquid];

/** Why it cannot run here; null: it can. */
export function mtaMissing({ name, program }: MtaKind): string | null {
  if (process.getuid?.() !== 0) return `${name} runs as root only`;
  return existsSync(program) ? null : `${name} is not here: run .ci/mtas`;
}

/** `url`: how a client sends mail through it. */
export type Mta = { url: string; stop(): Promise<void> };

export async function startMta(kind: MtaKind, to: Omit<Ports, "own">, bounceDomain: string): Promise<Mta> {
  const folder = mkdtempSync(join(tmpdir(), "postrider-mta-"));
  chmodSync(folder, 0o755);
  const own = await freePort("127.0.0.1");
  const {
    files,
    users = {},
    script,
    ownNetwork,
    ownProcesses = false,
  } = kind.plan(folder, { ...to, own }, bounceDomain);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(folder, name, ".."), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const entries = Object.entries(users);
  const passwd = entries
    .map(([name, id]) => `${name}:x:${id}:${id}::/var/empty:/usr/sbin/nologin\n`)
    .join("");
  writeFileSync(join(folder, "passwd"), readFileSync("/etc/passwd", "utf8") + passwd);
  const group = entries.map(([name, id]) => `${name}:x:${id}:\n`).join("");
  writeFileSync(join(folder, "group"), readFileSync("/etc/group", "utf8") + group);
  writeFileSync(join(folder, "hosts"), `127.0.0.1 ${NAME} localhost\n`);
  const lines = [
    "set -e",
    `mount --bind ${folder}/passwd /etc/passwd`,
    `mount --bind ${folder}/group /etc/group`,
    `mount --bind ${folder}/hosts /etc/hosts`,
    `hostname ${NAME}`,
    ...(ownNetwork
      ? [
          "ip link set lo up",
          `"${process.execPath}" ${NET} ${folder} ${bounceDomain} 127.0.0.1 ${ownNetwork.tlsPort} &`,
        ]
      : []),
    script,
  ];
  const bridges = ownNetwork ? await bridge(folder, { ...to, own }) : [];
  const child = spawn(
    "unshare",
    [
      "--mount",
      "--uts",
      ...(ownNetwork ? ["--net"] : []),
      ...(ownProcesses ? ["--pid", "--fork", "--kill-child"] : []),
      "--propagation",
      "private",
      "sh",
      "-c",
      lines.join("\n"),
    ],
    {
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    },
  );
  const said: string[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => said.push(String(chunk)));
  const ended = once(child, "exit");
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      signal(child, "SIGTERM");
      const timer = setTimeout(() => signal(child, "SIGKILL"), 3_000);
      await ended;
      clearTimeout(timer);
    }
    signal(child, "SIGKILL"); // children that outlive their master
    for (const one of bridges) one.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  };
  try {
    await greeted(own, child, ownNetwork !== undefined);
  } catch (error) {
    await stop();
    throw new Error(`${kind.name} did not start: ${(error as Error).message}\n${said.join("")}`);
  }
  const account = ownNetwork ? `${encodeURIComponent(ownNetwork.user)}:${ownNetwork.password}@` : "";
  return { url: `${ownNetwork ? "smtps" : "smtp"}://${account}127.0.0.1:${own}`, stop };
}

/** From the folder to the ports of the test, and from its port to the folder. */
async function bridge(folder: string, { own, sink, inbound }: Ports): Promise<Server[]> {
  const servers: Server[] = [];
  const pass = async (from: string | number, to: NetConnectOpts) => {
    const server = createServer((one) => {
      const other = connect(to);
      one.pipe(other).pipe(one);
      const end = () => {
        one.destroy();
        other.destroy();
      };
      for (const each of [one, other]) each.on("error", end);
    });
    servers.push(
      server.listen(typeof from === "string" ? { path: from } : { port: from, host: "127.0.0.1" }),
    );
    await once(server, "listening");
  };
  await pass(join(folder, "sink.sock"), { port: sink, host: "127.0.0.1" });
  await pass(join(folder, "inbound.sock"), { port: inbound, host: "127.0.0.1" });
  await pass(own, { path: join(folder, "own.sock") });
  return servers;
}

/** It and its processes. */
function signal({ pid }: ChildProcess, name: NodeJS.Signals): void {
  try {
    process.kill(-(pid as number), name);
  } catch {
    // they are gone
  }
}

async function greeted(port: number, child: ChildProcess, isTls: boolean): Promise<void> {
  const until = performance.now() + START_MS_MAX;
  while (performance.now() < until) {
    if (child.exitCode !== null) throw new Error(`it ended with status ${child.exitCode}`);
    const greeting = await new Promise<string>((resolve) => {
      const at = { port, host: "127.0.0.1" };
      const socket = isTls ? connectTls({ ...at, rejectUnauthorized: false }) : connect(at);
      socket.once("data", (chunk) => {
        resolve(String(chunk));
        socket.end("QUIT\r\n");
      });
      socket.once("error", () => resolve(""));
      socket.once("close", () => resolve(""));
    });
    if (greeting.startsWith("220")) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`it greets nobody on port ${port}`);
}
