/**
 * A second factor: the QR code on the screen is read by another reader, and the codes of what it says sign
 * in.
 */
import type { Locator } from "playwright-core";
import { expect } from "vitest";
import { codeAt } from "../../src/console/totp.ts";
import { MovableClock } from "../rig/clock.ts";
import { inChromium, openConsole, sceneOf, signIn } from "../rig/page.ts";
import { PASSWORD, person } from "../rig/people.ts";
import { readQrCode } from "../rig/qrreader.ts";

const STEP_MS = 30_000;
type Pixels = { data: number[]; width: number };
const PIXELS_OF = `async (picture) => {
  const bitmap = await createImageBitmap(await (await fetch("data:image/png;base64," + picture)).blob());
  const { width, height } = bitmap;
  const canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(bitmap, 0, 0);
  return { data: [...canvas.getImageData(0, 0, width, height).data], width };
}`;
const clock = new MovableClock(Date.now());
const scene = sceneOf(() => openConsole(["api"], { clock }));

inChromium("set up by camera on a dark, narrow screen, asked for, and turned off", async () => {
  const { engine, workspace, chromium } = scene;
  const { email } = await person(engine.sql, workspace.id);
  const page = await chromium.page({ dress: "dark", width: 390 });
  await page.goto(`${engine.consoleUrl}/console/profile`);
  await signIn(page, email);
  await page.getByRole("button", { name: "Turn it on" }).click();
  const uri = new URL(await seen(page.getByRole("img", { name: "The secret as a QR code" })));
  expect([uri.host, decodeURIComponent(uri.pathname)]).toEqual(["totp", `/Postrider:${email}`]);
  const nextCode = () => {
    clock.advance(STEP_MS);
    return codeAt(uri.searchParams.get("secret") as string, Math.floor(clock.now() / STEP_MS));
  };
  const card = page.locator("section").filter({ hasText: "Second factor" });
  const prove = async (code: string, button: string) => {
    await card.getByRole("textbox", { name: "Code" }).fill(code);
    await card.getByLabel("Your password").fill(PASSWORD);
    await card.getByRole("button", { name: button }).click();
  };
  await prove(nextCode(), "Turn it on");
  await card.getByText("Signing in asks for a code").waitFor();

  const other = await chromium.page();
  await other.goto(`${engine.consoleUrl}/console`);
  await signIn(other, email);
  await other.getByRole("alert").getByText("Enter the code that your authenticator shows").waitFor();
  await other.getByLabel("Code").fill(nextCode());
  await other.getByRole("button", { name: "Sign in" }).click();
  await other.getByRole("heading", { level: 1, name: "Emails" }).waitFor();

  await prove(nextCode(), "Turn it off");
  await card.getByRole("button", { name: "Turn it on" }).waitFor();
  await page.goto(`${engine.consoleUrl}/console/audit`);
  await page.getByText("turned the second factor off").waitFor();
  expect(await page.getByText("turned the second factor on").count()).toBe(1);
  expect(chromium.complaints).toEqual([]);
});

/** What a camera in front of the screen reads. */
async function seen(code: Locator): Promise<string> {
  const picture = (await code.screenshot()).toString("base64");
  const empty = await scene.chromium.page();
  const { data, width } = await empty.evaluate<Pixels>(`(${PIXELS_OF})("${picture}")`);
  return readQrCode(new Uint8ClampedArray(data), width)?.text ?? "no code was found";
}
