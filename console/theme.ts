/** Light or dark: the system's, until somebody chooses. The choice stays in this browser. */
import { keep, kept } from "./kept.ts";

const KEY = "theme";
const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

export function theme(): Theme {
  const chosen = kept(KEY);
  return THEMES.find((one) => one === chosen) ?? "system";
}

export function applyTheme(chosen: Theme = theme()): void {
  keep(KEY, chosen);
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  dispatchEvent(new Event("themechange"));
}

export function nextTheme(): Theme {
  return THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length] as Theme;
}
