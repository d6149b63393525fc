import { defineConfig } from "vite";

export default defineConfig({
  root: import.meta.dirname,
  base: "/console/",
  logLevel: "warn",
  // in tests NODE_ENV would add where each element stands in the sources, a quarter of the page
  oxc: { jsx: { runtime: "automatic", importSource: "preact", development: false } },
  build: {
    outDir: "../dist/console/app",
    emptyOutDir: true,
    target: "es2022",
    // older targets would turn light-dark() into a switch of its own
    cssTarget: "chrome123",
    // the content security policy allows no data: and no inline script
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // a busy machine is no reason to warn of a slow build
    rolldownOptions: { checks: { pluginTimings: false } },
  },
});
