/** Counts by the domain of the reader, of mail where complaints are reported. */

import { plainArray, texts } from "../db/arrays.ts";
import type { Statement, Tx } from "../db/connect.ts";

/** `day` counts from 1970. */
export type CountedSource = {
  workspaceId: string;
  day: number;
  source: string;
  complained: number;
  fblDelivered: number;
};

/** Locks in the order of the key. */
export function addSources(tx: Tx, worker: string, counted: readonly CountedSource[]): Statement {
  const of = (pick: (one: CountedSource) => string | number): string => plainArray(counted.map(pick));
  return tx`
    insert into cap_source as s (workspace_id, day, source, worker, complained, fbl_delivered)
    select workspace_id, day, source, ${worker}, sum(complained), sum(fbl_delivered)
    from unnest(${of((one) => one.workspaceId)}::uuid[], ${of((one) => one.day)}::int[],
      ${texts(
        tx,
        counted.map(({ source }) => source),
      )}, ${of((one) => one.complained)}::int[],
      ${of((one) => one.fblDelivered)}::int[]) as n(workspace_id, day, source, complained, fbl_delivered)
    group by workspace_id, day, source order by workspace_id, day, source
    on conflict (workspace_id, day, source, worker) do update set
      complained = s.complained + excluded.complained,
      fbl_delivered = s.fbl_delivered + excluded.fbl_delivered`;
}
