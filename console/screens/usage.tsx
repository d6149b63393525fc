import { useGet } from "../hooks.ts";
import { Card, Meter, Refusal, Screen, Skeleton } from "../parts/bits.tsx";
import { Table } from "../parts/table.tsx";
import type { Used } from "../shapes.ts";
import { capital, count, percent } from "../words.ts";
import { type Quota, QuotaMeters } from "./overview.tsx";

type Month = { month: string; delivered: number; hard_bounced: number; complained: number };
type Usage = {
  plan: string;
  quota: Quota;
  caps: { hour: Used; day: Used; waiting: number };
  months: Month[];
};

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
              <Meter name="This hour" {...data.caps.hour} />
              <Meter name="Today" {...data.caps.day} />
            </Card>
          </div>
          <Table
            label="Months"
            rows={data.months}
            keyOf={({ month }) => month}
            columns={[
              { name: "Month", cell: ({ month }) => month },
              { name: "Delivered", numeric: true, cell: ({ delivered }) => count(delivered) },
              {
                name: "Hard bounces",
                numeric: true,
                wide: true,
                cell: ({ hard_bounced, delivered }) =>
                  `${count(hard_bounced)} (${percent(hard_bounced, hard_bounced + delivered)})`,
              },
              {
                name: "Complaints",
                numeric: true,
                wide: true,
                cell: ({ complained, delivered }) =>
                  `${count(complained)} (${percent(complained, delivered)})`,
              },
            ]}
          />
        </>
      )}
    </Screen>
  );
}
