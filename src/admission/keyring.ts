/**
 * Creates and revokes keys, and has the rules for it: who may, how many, and on which plan. Changes of a
 * workspace are written to Redis at once, so that they apply to the next request, on every process.
 */
import { eachInTurn } from "../atonce.ts";
import type { Clock } from "../clock.ts";
import { newId } from "../ids.ts";
import type { Sql } from "../record/db/connect.ts";
import { untilHeard } from "../record/mail/bagleases.ts";
import { findKey, insertKey, markRevoked, revokedOf, revokedSince } from "../record/workspaces/keys.ts";
import { resumeWorkspace, type Suspended, suspendWorkspace } from "../record/workspaces/suspension.ts";
import {
  changedSince,
  changeWorkspace,
  findWorkspace,
  insertWorkspace,
  type Workspace,
} from "../record/workspaces/workspaces.ts";
import { keyspace } from "../redis/keyspace.ts";
import { loadScript, type RedisClient } from "../redis/scripts.ts";
import { type Overrides, type Plan, TERMS } from "../rules/plans.ts";
import { TRANSACTIONAL } from "../rules/stream.ts";
import { RECORD_LIVES_MS } from "./admit.ts";
import { hashOf, newHandle, newKey, shownPart } from "./bearer.ts";
import { type Permission, toBits } from "./permissions.ts";

/** The operator is the command line: who may run it owns the machine. */
export type MemberRole = "owner" | "admin" | "member" | "operator";

export type KeyRefusal = { status: 402 | 403 | 404 | 422; message: string };
export type KeyCreated = { id: string; key: string; shown: string };

export const revokeScript = loadScript("revoke", ["key_record"], ["lives_ms"]);
export const forgetScript = loadScript("forget", ["workspace_record"], ["lives_ms", "version"]);

/**
 * A mark of revocation outlives every copy that may be on its way: loads take seconds, records live a minute.
 */
const REVOKED_MARK_LIVES_MS = 2 * RECORD_LIVES_MS;

export const suspendScript = loadScript("suspend", ["workspace_record"], ["lives_ms", "version"]);

export type KeyringParts = { redis: RedisClient; sql: Sql; serverSecret: string; clock: Clock };

export class Keyring {
  readonly #parts: KeyringParts;
  constructor(parts: KeyringParts) {
    this.#parts = parts;
  }

  async createWorkspace(
    name: string,
    plan: Plan,
    limits: Overrides,
  ): Promise<{ id: string; handle: string }> {
    const { sql, clock } = this.#parts;
    const now = clock.now();
    const workspace = { id: newId(now), handle: newHandle(), name, plan, limits };
    await insertWorkspace(sql, workspace, new Date(now));
    return { id: workspace.id, handle: workspace.handle };
  }

  async changeWorkspace(
    id: string,
    change: { plan?: Plan; limits?: Record<string, number | null> },
  ): Promise<Workspace | null> {
    const { sql, clock } = this.#parts;
    const workspace = await changeWorkspace(sql, id, change, new Date(clock.now()));
    if (workspace) await this.forget(workspace.handle, workspace.version);
    return workspace;
  }

  async createKey(
    workspaceId: string,
    wanted: {
      name: string;
      permissions: readonly Permission[];
      audienceIds: string[] | null;
      stream?: string;
    },
    actor: MemberRole,
  ): Promise<KeyCreated | KeyRefusal> {
    const { sql, serverSecret, clock } = this.#parts;
    if (!mayManage(actor)) return FORBIDDEN;
    if (wanted.permissions.length === 0)
      return { status: 422, message: "A key needs at least one permission." };
    if (wanted.audienceIds?.length === 0)
      return { status: 422, message: "A restricted key needs at least one audience." };
    const workspace = await findWorkspace(sql, workspaceId);
    if (!workspace) return UNKNOWN_WORKSPACE;
    const now = clock.now();
    const key = newKey(workspace.handle, serverSecret);
    const row = {
      id: newId(now),
      workspaceId,
      hash: hashOf(key),
      shown: shownPart(key),
      name: wanted.name,
      permissions: toBits(wanted.permissions),
      audienceIds: wanted.audienceIds && [...new Set(wanted.audienceIds)],
      stream: wanted.stream ?? TRANSACTIONAL,
    };
    let needsPlan = false;
    const result = await insertKey(sql, row, new Date(now), (plan, activeKeys) => {
      const { keys, restrictedKeys } = TERMS[plan];
      if (activeKeys >= keys) {
        needsPlan = plan === "free";
        return needsPlan
          ? "The Free plan allows 1 key. Revoke it first, or choose a paid plan."
          : `A workspace can have up to ${keys} active keys. Revoke one first.`;
      }
      if (row.audienceIds && !restrictedKeys) {
        needsPlan = true;
        return "Keys limited to audiences need a paid plan.";
      }
      return null;
    });
    switch (result.kind) {
      case "unknown workspace":
        return UNKNOWN_WORKSPACE;
      case "unknown audience":
        return { status: 422, message: "One of the audiences does not exist in this workspace." };
      case "unknown stream":
        return {
          status: 422,
          message: `The workspace has no stream \`${row.stream}\`. Create it with \`postrider stream create ${row.stream} --workspace ${workspaceId}\`.`,
        };
      case "refused":
        return { status: needsPlan ? 402 : 422, message: result.reason };
      case "inserted":
        await this.forget(workspace.handle, result.version);
        return { id: row.id, key, shown: row.shown };
    }
  }

  /**
   * Redis first, then the record, then Redis again: an emptied Redis may have loaded the key once more
   * meanwhile. Older copies are barred before the second mark, so none can land after it.
   */
  async revokeKey(
    id: string,
    actor: MemberRole,
  ): Promise<{ id: string; workspaceId: string; revoked: true } | KeyRefusal> {
    const { sql, clock } = this.#parts;
    if (!mayManage(actor)) return FORBIDDEN;
    const key = await findKey(sql, id);
    if (!key)
      return {
        status: 404,
        message: "There is no key with this id. `postrider key list` lists the keys of a workspace.",
      };
    await this.#mark(key);
    const version = await markRevoked(sql, key.workspaceId, id, new Date(clock.now()));
    await this.forget(key.handle, version);
    await this.#mark(key);
    return { id, workspaceId: key.workspaceId, revoked: true };
  }

  /**
   * Redis first, then the record, then Redis again, as with a key that is revoked. A Redis that is away does
   * not keep a workspace from being suspended: then its keys work for a minute at most. Resolves when workers
   * start none of its messages any more.
   */
  async suspend(id: string, reason: string | null): Promise<Suspended | null> {
    const { sql, clock, redis } = this.#parts;
    const workspace = await findWorkspace(sql, id);
    if (!workspace) return null;
    const { handle, version } = workspace;
    const mark = suspendScript.run(
      redis,
      { workspace_record: keyspace.workspace(handle) },
      { lives_ms: REVOKED_MARK_LIVES_MS, version },
    );
    await mark.catch(() => {}); // repeated below, where an error is reported
    const suspended = await this.#changeState(suspendWorkspace(sql, id, reason, new Date(clock.now())));
    await untilHeard(sql, id);
    return suspended;
  }

  async resume(id: string, reason: string | null): Promise<Suspended | null> {
    const { sql, clock } = this.#parts;
    return this.#changeState(resumeWorkspace(sql, id, reason, new Date(clock.now())));
  }

  async #changeState(change: Promise<Suspended | null>): Promise<Suspended | null> {
    const changed = await change;
    if (!changed) return null;
    try {
      await this.forget(changed.handle, changed.version);
    } catch (error) {
      throw new Error(
        "The change is stored in Postgres, but Redis could not be told. It takes effect within a minute.",
        {
          cause: error,
        },
      );
    }
    return changed;
  }

  /** Redis was restarted, maybe with old contents: recent changes are written to it again. */
  async replay(now: number): Promise<void> {
    const { sql } = this.#parts;
    const since = new Date(now - REVOKED_MARK_LIVES_MS);
    const [revoked, changed] = await Promise.all([revokedSince(sql, since), changedSince(sql, since)]);
    // a server of a cluster that is away keeps none from being told to the others
    const forgotten = eachInTurn(changed, ({ handle, version }) => this.forget(handle, version));
    await forgotten.catch(() => {});
    await eachInTurn(revoked, (key) => this.#mark(key));
    await forgotten;
  }

  /** What a cell marks of a workspace that is about to arrive: it may know the keys from an earlier stay. */
  revokedLately(workspaceId: string): Promise<string[]> {
    const { sql, clock } = this.#parts;
    return revokedOf(sql, workspaceId, new Date(clock.now() - REVOKED_MARK_LIVES_MS));
  }

  async noteRevoked(handle: string, hashes: readonly string[]): Promise<void> {
    await Promise.all(hashes.map((hash) => this.#mark({ handle, hash })));
  }

  async #mark({ handle, hash }: { handle: string; hash: string }): Promise<void> {
    await revokeScript.run(
      this.#parts.redis,
      { key_record: keyspace.apiKey(handle, hash) },
      { lives_ms: REVOKED_MARK_LIVES_MS },
    );
  }

  /** A workspace was changed elsewhere: no cached copy older than this version may be used. */
  async forget(handle: string, version: number): Promise<void> {
    await forgetScript.run(
      this.#parts.redis,
      { workspace_record: keyspace.workspace(handle) },
      { lives_ms: RECORD_LIVES_MS, version },
    );
  }
}

const FORBIDDEN: KeyRefusal = {
  status: 403,
  message: "Only owners and admins of the workspace can manage its keys.",
};
const UNKNOWN_WORKSPACE: KeyRefusal = {
  status: 404,
  message: "There is no workspace with this id. `postrider workspace list` lists them.",
};

function mayManage(actor: MemberRole): boolean {
  return actor !== "member";
}
