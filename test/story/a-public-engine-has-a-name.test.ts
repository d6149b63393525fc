import { expect, test } from "vitest";
import { startEngine } from "../rig/engine.ts";

const NAMES = { PUBLIC_URL: "https://mail.example.com", MAIL_FROM: "no-reply@mail.example.com" };

test.each([
  [{}, /^PUBLIC_URL and MAIL_FROM must be set, since HOST is 0\.0\.0\.0: /],
  [{ PUBLIC_URL: NAMES.PUBLIC_URL }, /^MAIL_FROM must be set, since HOST is 0\.0\.0\.0: /],
  [{ MAIL_FROM: NAMES.MAIL_FROM }, /^PUBLIC_URL must be set, since HOST is 0\.0\.0\.0: /],
])("whoever listens to others says where links lead and who writes: not with %j", async (settings, words) => {
  const starting = startEngine(["api"], { settings: { HOST: "0.0.0.0", ...settings } });
  await expect(starting).rejects.toThrow(words);
});

test("with both it starts", async () => {
  const engine = await startEngine(["api"], { settings: { HOST: "0.0.0.0", ...NAMES } });
  expect((await fetch(`${engine.url}/readyz`)).status).toBe(200);
  await engine.stop();
});
