/**
 * How a client finds the master that Sentinel names.
 *
 * ioredis 6.0.0 goes on listening for another master while it connects again, and obeys by ending its
 * attempt: "end" is what the client is from then on, and every command is answered "Connection is closed" for
 * as long as the process lives. Who connects asks Sentinel anyway, so nobody has to listen until there is a
 * connection.
 */
import { type SentinelConnectionOptions, SentinelConnector } from "ioredis";

type Detector = { cleanup(): void } | null;

export class SteadySentinelConnector extends SentinelConnector {
  /** The client promises its connectors nothing about their options. */
  constructor(options: unknown) {
    super(options as SentinelConnectionOptions);
  }

  override connect(...args: Parameters<SentinelConnector["connect"]>) {
    // that of the connection before; private in its types alone
    (this as unknown as { failoverDetector: Detector }).failoverDetector?.cleanup();
    return super.connect(...args);
  }
}
