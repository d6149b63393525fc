/** Takes reports of receivers over SMTP. */
import { atMost } from "../../clock.ts";
import { openInbound } from "../../inbound/inbound.ts";
import { ReturnPathKey } from "../../returnpath.ts";
import type { AllCells, JoinCell } from "./allcells.ts";
import { KEEPER_STOP_MS, notOpened, type RoleParts } from "./parts.ts";

/** Nothing listens where no return path and no feedback address leads. */
export async function startInboundRole({ home, cells, finder }: AllCells, onKept: (cell: number) => void) {
  const { config, serverSecret, overload, clock, log, onFault } = home;
  const { bounceDomain, feedbackAddresses, tlsReportsTo } = config;
  if (
    serverSecret === "" ||
    (bounceDomain === null && feedbackAddresses.length + tlsReportsTo.length === 0)
  ) {
    log.info("nothing listens for reports: BOUNCE_DOMAIN, FEEDBACK_ADDRESSES and TLS_REPORTS_TO are not set");
    return null;
  }
  const recordOf = (cell: RoleParts, n: number) => ({
    sql: cell.stores.sql("intake"),
    onKept: () => onKept(n),
  });
  const guard = overload();
  try {
    const inbound = await openInbound(config, {
      paths: new ReturnPathKey(serverSecret),
      records: cells.map(({ parts }, n) => (parts === null ? null : recordOf(parts, n))),
      finder,
      clock,
      shortage: () => guard.shortage?.reason ?? null,
      onFault,
    });
    const join: JoinCell = async (cell, n) => {
      const { close } = inbound.join(n, recordOf(cell, n));
      return { stop: () => atMost(KEEPER_STOP_MS, close()) };
    };
    return {
      inboundPort: inbound.port,
      async stop() {
        await atMost(KEEPER_STOP_MS, inbound.stop());
      },
      join,
    };
  } catch (error) {
    const { inboundHost, inboundPort } = config;
    throw notOpened(
      `Reports cannot be taken on ${inboundHost}, port ${inboundPort}`,
      error,
      "Set INBOUND_HOST, INBOUND_PORT, INBOUND_TLS_CERT or INBOUND_TLS_KEY.",
    );
  }
}
