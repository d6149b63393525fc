/** The role that takes reports, put together: listener and intake. */
import { readFileSync } from "node:fs";
import { Unavailable } from "../admission/unavailable.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import type { Sql } from "../record/db/connect.ts";
import type { NewReport } from "../record/mail/reports.ts";
import type { ReturnPathKey } from "../returnpath.ts";
import { type Certificate, selfSigned } from "../smtp/certificate.ts";
import { Intake } from "./intake.ts";
import { ReportListener } from "./listener.ts";

export type InboundParts = {
  paths: ReturnPathKey;
  /** Where reports are kept: one for each cell, home first; null: of one that joins later. */
  records: readonly (ReportRecord | null)[];
  /** The number of the cell that a workspace is in; null: of none. */
  finder: { ofHandle(handle: string): Promise<number | null>; forget(handle: string): void };
  clock: Clock;
  /** Why nothing may be written for now; null in good times. */
  shortage(): string | null;
  onFault(error: unknown): void;
};

/** `onKept`: there are reports to work off. */
type ReportRecord = { sql: Sql; onKept(): void };

export type Inbound = {
  port: number;
  /** A cell, by its number, begins to keep reports. */
  join(cell: number, record: ReportRecord): { close(): Promise<void> };
  stop(): Promise<void>;
};

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
  const { paths, clock, shortage, onFault } = parts;
  const name = ehloName ?? bounceDomain ?? NAME_WITHOUT_DOMAIN;
  const intakes = parts.records.map((record) => record && new Intake(record.sql, record.onKept));
  const [home] = intakes as [Intake];
  const listener = new ReportListener({
    host,
    port,
    name,
    certificate: certificateOf(settings, name, clock.now()),
    feedbackAddresses,
    tlsReportAddresses: settings.tlsReportsTo,
    paths,
    clock,
    busy: () =>
      intakes.every((intake) => intake?.hasRoom ?? true) ? shortage() : "too many reports are being written",
    keep: (reports) =>
      intakes.length === 1 ? home.keep(reports) : keepByCell(intakes, reports, parts.finder),
    onFault,
  });
  return {
    port: await listener.listen(),
    join(cell, { sql, onKept }) {
      const intake = new Intake(sql, onKept);
      intakes[cell] = intake;
      return intake;
    },
    async stop() {
      await listener.stop();
      for (const intake of intakes) await intake?.close();
    },
  };
}

/** Which mail a report to an address for all is about is known when it is read: every cell reads it. */
async function keepByCell(
  intakes: readonly (Intake | null)[],
  reports: readonly NewReport[],
  finder: InboundParts["finder"],
): Promise<void> {
  const cells = await Promise.all(
    reports.map(({ handle }) => (handle === null ? null : finder.ofHandle(handle))),
  );
  const isFor = (n: number, cell: number) => reports[n]?.handle === null || (cells[n] ?? 0) === cell;
  await Promise.all(
    intakes.map(async (intake, cell) => {
      const own = reports.filter((_, n) => isFor(n, cell));
      if (own.length === 0) return;
      if (intake === null)
        throw new Unavailable("postgres", "a cell has not answered since the process began");
      await intake.keep(own);
    }),
  ).catch((error: unknown) => {
    // a workspace may have moved: who handed this in tries again
    for (const { handle } of reports) if (handle !== null) finder.forget(handle);
    throw error;
  });
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
