/**
 * direct: everything as `deliver`, but without a smarthost: 200 domains behind 20 MX hosts, which a DNS
 * server of the bench names. All hosts are the one sink, but the engine cannot know that: it has 20
 * destinations.
 */
import { openDns } from "../../test/rig/dns.ts";
import { BATCH_EMAILS, mail } from "../mails.ts";
import type { Scenario } from "../scenario.ts";
import { deliverRun, resultOf } from "./deliver.ts";

const DOMAINS = 200;
const HOSTS = 20;
const BATCHES = 20;

const hostOf = (n: number) => `mx${n % HOSTS}.example.net`;

const direct: Scenario = {
  name: "direct",
  does: "accept to sink without a smarthost: 200 domains, 20 MX hosts, everything on this machine",
  async run(bench, run) {
    const dns = await openDns();
    bench.endings.add(() => dns.close());
    for (let n = 0; n < HOSTS; n++) dns.zones.set(hostOf(n), { addresses: ["127.0.0.1"] });
    for (let n = 0; n < DOMAINS; n++) dns.zones.set(`d${n}.example.net`, { mx: [[10, hostOf(n)]] });
    const batches = Array.from({ length: BATCHES }, (_, batch) =>
      JSON.stringify(
        Array.from({ length: BATCH_EMAILS }, (_, n) =>
          mail(n, `d${(batch * BATCH_EMAILS + n) % DOMAINS}.example.net`),
        ),
      ),
    );
    const workerEnv = {
      COURIER: "direct",
      SMTP_URL: "",
      EHLO_NAME: "bench.example.com",
      DNS_SERVERS: dns.address,
      DIRECT_PORT: String(bench.sink.port),
      DIRECT_NETWORKS_ALLOWED: "127.0.0.0/8",
    };
    return resultOf(await deliverRun(bench, run, { body: batches, workerEnv }));
  },
};

export const scenarios = [direct];
