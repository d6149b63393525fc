/** Runs of automations, and reports about TLS, which are mail of the engine's own too. */
import { Links } from "../../audience/links.ts";
import { Worker } from "../../automation/work.ts";
import { atMost } from "../../clock.ts";
import type { Config } from "../../config.ts";
import { receiversFor } from "../../delivery/receivers.ts";
import { Owners } from "../../domain/owners.ts";
import { contactCommit } from "../../record/contacts/commit.ts";
import type { Sql } from "../../record/db/connect.ts";
import { urlAt } from "../../rules/urlat.ts";
import { TemplateCache } from "../../template/cache.ts";
import { ReportSender, type ReportSenderParts } from "../../transport/reportsender.ts";
import { openOwnMail } from "./ownmail.ts";
import { API_STOP_MS, type RoleParts } from "./parts.ts";

export async function startAutomateRole(parts: RoleParts) {
  const { config, serverSecret, stores, looks, clock, onFault } = parts;
  const mail = await openOwnMail(parts);
  const contacts = contactCommit(mail.commits, mail.hashOf);
  const reports = startReportSender(config, { sql: mail.reads, clock, submit: mail.submitOwn, onFault });
  const worker = new Worker({
    sql: stores.sql("runs"),
    submitOwn: mail.submitOwn,
    contacts,
    templates: new TemplateCache(mail.reads, config.storeTimeoutMs),
    owners: new Owners({ sql: mail.reads, isRequired: config.requireVerifiedDomains, onFault }),
    links: new Links(serverSecret, config.publicUrl ?? urlAt(config.host, config.port)),
    clock,
    onFault,
  });
  worker.start(looks);
  return {
    async stop() {
      await Promise.all([worker.stop(), reports && atMost(API_STOP_MS, reports.stop())]);
      await contacts.close();
      await mail.close();
    },
  };
}

/** Connections to receivers are reported by whoever makes them: with a smarthost there is nothing to say. */
function startReportSender(
  config: Config,
  parts: Pick<ReportSenderParts, "sql" | "clock" | "submit" | "onFault"> & { sql: Sql },
): ReportSender | null {
  const { courier, tlsReportsFrom: from } = config;
  if (courier !== "direct" || from === null) return null;
  const { web, askTxt } = receiversFor(config, parts);
  const sender = new ReportSender({ ...parts, from, web, askTxt });
  sender.start();
  return sender;
}
