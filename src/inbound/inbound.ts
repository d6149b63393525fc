/** The role that takes reports, put together: listener and intake. */
import { readFileSync } from "node:fs";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import type { Sql } from "../record/db/connect.ts";
import type { ReturnPathKey } from "../returnpath.ts";
import { type Certificate, selfSigned } from "../smtp/certificate.ts";
import { Intake } from "./intake.ts";
import { ReportListener } from "./listener.ts";

export type InboundParts = {
  paths: ReturnPathKey;
  sql: Sql;
  clock: Clock;
  /** Why nothing may be written for now; null in good times. */
  brake(): string | null;
  /** There are reports to work off. */
  onKept(): void;
  onFault(error: unknown): void;
};

export type Inbound = { port: number; stop(): Promise<void> };

type Settings = Pick<
  Config,
  | "bounceDomain"
  | "inboundHost"
  | "inboundPort"
  | "inboundTlsCert"
  | "inboundTlsKey"
  | "feedbackAddresses"
  | "tlsReportsTo"
  | "ehloName"
>;

const NAME_WITHOUT_DOMAIN = "localhost";

/** Throws when it cannot listen, or when the certificate cannot be used. */
export async function openInbound(settings: Settings, parts: InboundParts): Promise<Inbound> {
  const { bounceDomain, inboundHost: host, inboundPort: port, feedbackAddresses, ehloName } = settings;
  const { paths, clock, brake, onFault } = parts;
  const name = ehloName ?? bounceDomain ?? NAME_WITHOUT_DOMAIN;
  const intake = new Intake(parts.sql, parts.onKept);
  const listener = new ReportListener({
    host,
    port,
    name,
    certificate: certificateOf(settings, name, clock.now()),
    feedbackAddresses,
    tlsReportAddresses: settings.tlsReportsTo,
    paths,
    clock,
    busy: () => (intake.hasRoom ? brake() : "too many reports are being written"),
    keep: (reports) => intake.keep(reports),
    onFault,
  });
  return {
    port: await listener.listen(),
    async stop() {
      await listener.stop();
      await intake.close();
    },
  };
}

function certificateOf(
  { inboundTlsCert, inboundTlsKey }: Pick<Settings, "inboundTlsCert" | "inboundTlsKey">,
  name: string,
  now: number,
): Certificate {
  if (inboundTlsCert === null && inboundTlsKey === null) return selfSigned(name, now);
  if (inboundTlsCert === null || inboundTlsKey === null)
    throw new Error("INBOUND_TLS_CERT and INBOUND_TLS_KEY are needed together");
  return { cert: readFileSync(inboundTlsCert, "utf8"), key: readFileSync(inboundTlsKey, "utf8") };
}
