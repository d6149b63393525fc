/** Tells events to the webhooks of workspaces. */

import { Crowding } from "../../priority.ts";
import { egressRules } from "../../webhooks/endpoint.ts";
import { SecretSealer } from "../../webhooks/secret.ts";
import { tellOwners } from "../../webhooks/tell.ts";
import { WebhookWorker } from "../../webhooks/work.ts";
import { openOwnMail } from "./ownmail.ts";
import { operatorSender, type RoleParts, resolverOf } from "./parts.ts";

const WEBHOOKS_STOP_MS = 2_500;

export async function startWebhooksRole(parts: RoleParts) {
  const { config, serverSecret, stores, looks, clock, onFault } = parts;
  const sql = stores.sql("webhooks");
  const mail = await openOwnMail(parts);
  const crowding = new Crowding();
  const telling = { sql, from: operatorSender(config), write: mail.submitOwn, onFault };
  const worker = new WebhookWorker({
    sql,
    sealer: new SecretSealer(serverSecret),
    dns: resolverOf(config),
    rules: egressRules(config.webhookNetworksAllowed),
    now: () => clock.now(),
    given: () => clock.given(),
    random: Math.random,
    crowding: () => crowding.share(),
    tellOwners: (now) => tellOwners(telling, now),
    onFault,
  });
  worker.start(looks);
  return {
    async stop() {
      await worker.stop(WEBHOOKS_STOP_MS);
      await mail.close();
    },
  };
}
