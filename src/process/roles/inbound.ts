/** Takes reports of receivers over SMTP. */
import { atMost } from "../../clock.ts";
import { openInbound } from "../../inbound/inbound.ts";
import { OverloadState } from "../../record/mail/overload.ts";
import { ReturnPathKey } from "../../returnpath.ts";
import { KEEPER_STOP_MS, notOpened, type RoleParts } from "./parts.ts";

/** Nothing listens where no return path and no feedback address leads. */
export async function startInboundRole(
  { config, serverSecret, stores, clock, log, onFault }: RoleParts,
  onKept: () => void,
) {
  const { bounceDomain, feedbackAddresses, tlsReportsTo } = config;
  if (
    serverSecret === "" ||
    (bounceDomain === null && feedbackAddresses.length + tlsReportsTo.length === 0)
  ) {
    log.info("nothing listens for reports: BOUNCE_DOMAIN, FEEDBACK_ADDRESSES and TLS_REPORTS_TO are not set");
    return null;
  }
  const sql = stores.sql("intake");
  const brake = new OverloadState(sql, onFault);
  try {
    const inbound = await openInbound(config, {
      paths: new ReturnPathKey(serverSecret),
      sql,
      clock,
      brake: () => brake.shortage?.reason ?? null,
      onKept,
      onFault,
    });
    return {
      inboundPort: inbound.port,
      async stop() {
        brake.stop();
        await atMost(KEEPER_STOP_MS, inbound.stop());
      },
    };
  } catch (error) {
    brake.stop();
    const { inboundHost, inboundPort } = config;
    throw notOpened(
      `Reports cannot be taken on ${inboundHost}, port ${inboundPort}`,
      error,
      "Set INBOUND_HOST, INBOUND_PORT, INBOUND_TLS_CERT or INBOUND_TLS_KEY.",
    );
  }
}
