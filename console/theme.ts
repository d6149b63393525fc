/** Light or dark: the system's, until somebody chooses. The choice stays in this browser. */
const KEY = "theme";
const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

export function theme(): Theme {
  return THEMES.find((one) => one === localStorage.getItem(KEY)) ?? "system";
}

export function applyTheme(chosen: Theme = theme()): void {
  localStorage.setItem(KEY, chosen);
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  dispatchEvent(new Event("themechange"));
}

export function nextTheme(): Theme {
  return THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length] as Theme;
}
