/** What every role is started with, and what several of them take from the settings. */
import { randomUUID } from "node:crypto";
import { Resolver } from "node:dns/promises";
import { hostname } from "node:os";
import type { Logger } from "pino";
import type { BodyBudget } from "../../api/bodybudget.ts";
import { defaultSender } from "../../audience/confirm.ts";
import type { PolicyInForce } from "../../capacity/inforce.ts";
import { codeOf, messageOf, syscallOf } from "../../caught.ts";
import type { Clock } from "../../clock.ts";
import { type Config, ConfigError } from "../../config.ts";
import type { DomainDns } from "../../domain/records.ts";
import type { Looks } from "../../record/db/looks.ts";
import type { OverloadState } from "../../record/mail/overload.ts";
import type { QueueShards } from "../../record/mail/queueshards.ts";
import { urlAt } from "../../rules/urlat.ts";
import type { FaultLog } from "../faultlog.ts";
import { StartError, type Stores } from "../stores.ts";

export const API_STOP_MS = 3_000;
export const KEEPER_STOP_MS = 1_500;
/** For what the queue is told last; it finds out by itself. */
export const GOODBYE_MS = 400;
const DNS_MS_MAX = 3_000;
const DNS_TRIES = 2;

export type RoleParts = {
  /** The name of its cell; null: there are no cells. */
  cell: string | null;
  config: Config;
  serverSecret: string;
  stores: Stores;
  /** Of the cell that keeps what is one for the whole fleet: the limits of receivers. */
  homeStores: Stores;
  shards: QueueShards;
  looks: Looks;
  /** The same for all roles of the process. */
  overload(): OverloadState;
  policy: PolicyInForce;
  clock: Clock;
  /** For bodies of requests and mails in memory, of all roles of the process together. */
  budget: BodyBudget;
  log: Logger;
  onFault: FaultLog;
};

export function workerName(): string {
  return `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;
}

/** Who writes confirmation mails in the operator's words. */
export function operatorSender({ mailFrom, publicUrl, host, port }: Config): string {
  return mailFrom ?? defaultSender(publicUrl ?? urlAt(host, port));
}

/** Asks DNS for the records of senders' domains. */
export function domainDns(config: Config): DomainDns {
  const { bounceDomain } = config;
  const resolver = resolverOf(config);
  const askMx = (name: string) => resolver.resolveMx(name);
  return {
    askTxt: (name) => resolver.resolveTxt(name),
    returnPaths: bounceDomain === null ? null : { bounceDomain, askMx },
  };
}

export function resolverOf({ dnsServers }: Config): Resolver {
  const resolver = new Resolver({ timeout: DNS_MS_MAX, tries: DNS_TRIES });
  if (dnsServers && dnsServers.length > 0) resolver.setServers(dnsServers);
  return resolver;
}

/** A port that others have, or a setting such as a certificate. */
export function notOpened(what: string, error: unknown, remedy: string): Error {
  const words = `${what}: ${messageOf(error)}. ${remedy}`;
  const [syscall, code] = [syscallOf(error), codeOf(error)];
  return syscall === "listen" ? Object.assign(new StartError(words), { code }) : new ConfigError(words);
}
