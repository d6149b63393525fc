/** What Postgres does for the statements of others: each is explained, and then sent as it is. */
import type { Sql, Tx } from "../../src/record/db/connect.ts";
import { type Unsent, writing } from "../../src/record/db/statement.ts";

/** Of `explain (analyze, format json)`. Rows are those of one loop. */
export type PlanNode = {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  "Actual Rows": number;
  "Actual Loops": number;
  "Rows Removed by Filter"?: number;
  Plans?: PlanNode[];
};

export function explaining(sql: Sql, onPlan: (plan: PlanNode) => void): Sql {
  const explain = async (statement: Unsent) => {
    const [row] = await sql<{ "QUERY PLAN": { Plan: PlanNode }[] }[]>`
      explain (analyze, format json) ${statement}`;
    const plan = row?.["QUERY PLAN"][0]?.Plan;
    if (plan) onPlan(plan);
    return sql`${statement}`;
  };
  return writing(explain as Parameters<typeof writing>[0]) as Tx as Sql;
}

/** The node and all below it. */
export function nodesOf(plan: PlanNode): PlanNode[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];
}

/** Also those that did not match. */
export function rowsReadBy(node: PlanNode): number {
  return (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)) * node["Actual Loops"];
}
