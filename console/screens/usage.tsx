import { useGet } from "../hooks.ts";
import { Card, Meter, Refusal, Screen, Skeleton } from "../parts/bits.tsx";
import { isIn, type RowFilter, ShortList } from "../parts/list.tsx";
import { type Column, numberColumn } from "../parts/table.tsx";
import type { Used } from "../shapes.ts";
import { capital, count, counted, percent } from "../words.ts";
import { type Quota, QuotaMeters } from "./overview.tsx";

type Month = { month: string; delivered: number; hard_bounced: number; complained: number };
type Usage = {
  plan: string;
  quota: Quota;
  caps: { hour: Used; day: Used; waiting: number };
  months: Month[];
};

const FILTERS: readonly RowFilter<Month>[] = [
  { name: "month", label: "Month", placeholder: "2026-11", holds: ({ month }, value) => isIn(value, month) },
];
const COLUMNS: readonly Column<Month>[] = [
  {
    name: "Month",
    cell: ({ month, hard_bounced, complained }) => (
      <>
        {month}
        <span class="narrow muted small-text">
          {counted(hard_bounced, "hard bounce", "hard bounces")},{" "}
          {counted(complained, "complaint", "complaints")}
        </span>
      </>
    ),
    csv: ({ month }) => month,
  },
  numberColumn("Delivered", ({ delivered }) => delivered),
  {
    name: "Hard bounces",
    numeric: true,
    wide: true,
    cell: ({ hard_bounced, delivered }) =>
      `${count(hard_bounced)} (${percent(hard_bounced, hard_bounced + delivered)})`,
    csv: ({ hard_bounced }) => hard_bounced,
  },
  {
    name: "Complaints",
    numeric: true,
    wide: true,
    cell: ({ complained, delivered }) => `${count(complained)} (${percent(complained, delivered)})`,
    csv: ({ complained }) => complained,
  },
];

/** As every list is. */
function newestFirst(months: readonly Month[]): Month[] {
  return [...months].sort((one, other) => (one.month < other.month ? 1 : -1));
}

export function UsageScreen() {
  const { data, error } = useGet<Usage>("usage");
  return (
    <Screen title="Usage" intro={data && `The plan of this workspace is ${capital(data.plan)}.`}>
      <Refusal error={error} />
      {!data && !error && <Skeleton />}
      {data && (
        <>
          <div class="halves">
            <Card title="Quota">
              <QuotaMeters quota={data.quota} />
            </Card>
            <Card title="Sending caps">
              <Meter name="The last hour" {...data.caps.hour} />
              <Meter name="Today (UTC)" {...data.caps.day} />
            </Card>
          </div>
          {data.months.length > 0 && (
            <ShortList
              label="months"
              filters={FILTERS}
              columns={COLUMNS}
              rows={newestFirst(data.months)}
              keyOf={({ month }) => month}
            />
          )}
        </>
      )}
    </Screen>
  );
}
