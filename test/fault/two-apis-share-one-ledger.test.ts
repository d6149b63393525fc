import { afterAll, beforeAll, expect, test } from "vitest";
import { type OwnRedis, ownRedis } from "../rig/services.ts";
import { Client, mail, type TestApi, testApi } from "../rig/workspace.ts";

const CALLERS = 64;

let redises: OwnRedis[];
let apis: TestApi[];
beforeAll(async () => {
  // each has a Redis of its own, so what one grants the other does not see: only the ledger keeps them
  // together
  redises = await Promise.all([ownRedis(), ownRedis()]);
  apis = await Promise.all(redises.map(({ url }) => testApi({ redisUrl: url })));
});
afterAll(async () => {
  await Promise.all(apis.map((api) => api.stop()));
  await Promise.all(redises.map((redis) => redis.stop()));
});

test("of what two apis grant at once exactly the quota is accepted, and exactly the cap goes out", async () => {
  const [here] = apis as [TestApi];
  const ws = await here.workspace("free", { cap_hour: 60 });
  const clients = apis.map(({ url }) => new Client(url, ws.client.key));
  let accepted = 0;
  const caller = async (client: Client): Promise<void> => {
    for (;;) {
      const { status } = await client.post("/emails", mail());
      if (status === 429) return;
      expect(status).toBe(200);
      accepted++;
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, (_, n) => caller(clients[n % 2] as Client)));
  expect(accepted).toBe(100);
  const [row] = await here.sql`
    select l.day_used, l.waiting, l.cap_day_used,
           (select count(*)::int from email where workspace_id = ${ws.id}) as emails,
           (select count(*)::int from due where workspace_id = ${ws.id}) as due
    from ledger l where l.workspace_id = ${ws.id}`;
  expect(row).toEqual({ day_used: 100, waiting: 40, cap_day_used: 60, emails: 100, due: 40 });
});

test("one idempotency key on two apis at once is one e-mail", async () => {
  const [here] = apis as [TestApi];
  const ws = await here.workspace();
  for (let n = 0; n < 20; n++) {
    const answers = await Promise.all(
      Array.from({ length: 4 }, (_, k) =>
        new Client((apis[k % 2] as TestApi).url, ws.client.key).post<{ id: string }>("/emails", mail(), {
          "idempotency-key": `both ${n}`,
        }),
      ),
    );
    const ids = new Set(answers.flatMap(({ status, body }) => (status === 200 ? body.id : [])));
    expect(ids.size).toBe(1);
    for (const { status } of answers) expect([200, 409]).toContain(status);
  }
  const [row] = await here.sql`select count(*)::int from email where workspace_id = ${ws.id}`;
  expect(row?.count).toBe(20);
});
