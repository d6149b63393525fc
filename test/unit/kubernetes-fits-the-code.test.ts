/** The manifests name only what exists: settings, roles, ports, paths; and each role has a workload. */
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { ROLES } from "../../src/rules/roles.ts";
import { ENDS_WITHIN_S, parsed, ROOT, read, unknownSettings } from "../rig/opsfiles.ts";

type Probe = { httpGet?: { path: string; port: string }; tcpSocket?: { port: string } };
type Container = {
  name: string;
  image: string;
  args: string[];
  ports?: { name: string; containerPort: number }[];
  env?: { name: string; value: string }[];
  envFrom: { configMapRef?: { name: string }; secretRef?: { name: string } }[];
  startupProbe?: Probe;
  readinessProbe?: Probe;
  livenessProbe?: Probe;
  lifecycle?: { preStop: { exec: { command: string[] } } };
  securityContext: unknown;
  resources: { requests: { memory: string }; limits: { memory: string } };
};
type Labels = Record<string, string>;
type PodSpec = { terminationGracePeriodSeconds?: number; securityContext: unknown; containers: Container[] };
type Thing = {
  kind: string;
  metadata: { name: string };
  data?: Record<string, string>;
  spec: {
    selector?: Labels & { matchLabels?: Labels };
    podSelector?: { matchLabels: Labels };
    template: { metadata: { labels: Labels }; spec: PodSpec };
    ports?: { port: number; targetPort: string }[];
    ingress?: { ports: { port: string }[] }[];
  };
};

const FOLDERS = ["base", "inbound", "submission"].map((name) => `ops/kubernetes/${name}`);
const files = FOLDERS.flatMap(listed);
const things = files.flatMap((file) => parsed<Thing>(file));
const workloads = things.filter(({ kind }) => kind === "Deployment" || kind === "Job");
const deployments = things.filter(({ kind }) => kind === "Deployment");
const settings = things.find(({ kind }) => kind === "ConfigMap")?.data ?? {};

/** The files that a kustomization names. */
function listed(folder: string): string[] {
  const [{ resources }] = parsed<{ resources: string[] }>(`${folder}/kustomization.yaml`) as [
    { resources: string[] },
  ];
  return resources.map((name) => join(folder, name));
}

function containerOf({ spec }: Thing): Container {
  const [container, ...more] = spec.template.spec.containers;
  expect(more).toEqual([]);
  return container as Container;
}

const isWithin = (selector: Labels, labels: Labels) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);

test("every manifest belongs to a kustomization", () => {
  const there = FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder)).map((name) => join(folder, name)),
  );
  expect(there.filter((file) => !file.endsWith("kustomization.yaml")).sort()).toEqual([...files].sort());
});

test("the example adds to what is there", () => {
  const text = read("ops/kubernetes/example/kustomization.yaml");
  const folders = [...text.matchAll(/^ {2}(?:# )?- (\.\.\/\w+)/gm)].map(([, path]) =>
    join("ops/kubernetes/example", path as string),
  );
  expect(folders).toEqual(FOLDERS);
  const named = [...text.matchAll(/name: (postrider(?:-\w+)?)/g)].map(([, name]) => name);
  const names = things.map(({ metadata: { name } }) => name);
  expect(named.filter((name) => !names.includes(name as string))).toEqual([]);
});

test("every role has a deployment of its own", () => {
  const roles = deployments.map((one) => {
    const { name, args } = containerOf(one);
    expect(args).toEqual(["serve", "--role", name]);
    expect(one.metadata.name).toBe(`postrider-${name}`);
    expect(one.spec.template.metadata.labels).toEqual({ app: "postrider", role: name });
    expect(one.spec.selector?.matchLabels).toEqual({ app: "postrider", role: name });
    return name;
  });
  expect(roles.sort()).toEqual([...ROLES].sort());
  const [job, ...more] = workloads.filter(({ kind }) => kind === "Job");
  expect(more).toEqual([]);
  expect(containerOf(job as Thing).args).toEqual(["migrate"]);
});

test("all variables are settings", () => {
  const named = workloads.flatMap((one) => (containerOf(one).env ?? []).map(({ name }) => name));
  expect(unknownSettings([...Object.keys(settings), ...named])).toEqual([]);
});

test("only who makes tables has the role that owns them", () => {
  const owners = workloads.filter((one) =>
    containerOf(one).envFrom.some(({ secretRef }) => secretRef?.name === "postrider-owner"),
  );
  expect(owners.map((one) => containerOf(one).name).sort()).toEqual(["keeper", "migrate"]);
  for (const one of owners)
    expect(containerOf(one).envFrom.at(-1)).toEqual({ secretRef: { name: "postrider-owner" } });
});

/** By the name of the port: the settings that say where a process listens. */
const PORT_SETTINGS: Record<string, Record<string, string>> = {
  api: { http: "PORT" },
  console: { http: "CONSOLE_PORT" },
  inbound: { smtp: "INBOUND_PORT" },
  submission: { submission: "SUBMISSION_PORT", submissions: "SUBMISSION_TLS_PORT" },
};

test("ports are those that the settings name", () => {
  for (const one of deployments) {
    const { name, ports = [], env = [] } = containerOf(one);
    const told: Record<string, string> = {
      ...settings,
      ...Object.fromEntries(env.map(({ name, value }) => [name, value])),
    };
    const wanted = { ...PORT_SETTINGS[name], metrics: "METRICS_PORT" };
    expect(
      Object.fromEntries(ports.map(({ name, containerPort }) => [name, `${containerPort}`])),
      name,
    ).toEqual(Object.fromEntries(Object.entries(wanted).map(([port, setting]) => [port, told[setting]])));
  }
});

/** Where each path is answered, and without a token. */
const ANSWERED = [
  { role: "api", port: "http", path: "/healthz", in: "src/api/server.ts", as: 'HEALTH_PATH = "/healthz"' },
  { role: "api", port: "http", path: "/readyz", in: "src/api/server.ts", as: 'READY_PATH = "/readyz"' },
  { role: "console", port: "http", path: "/healthz", in: "src/console/console.ts", as: '"/healthz"' },
  { role: "", port: "metrics", path: "/healthz", in: "src/process/metrics.ts", as: '"/healthz"' },
];

test("probes ask what is answered", () => {
  for (const one of deployments) {
    const { name, ports = [], startupProbe, readinessProbe, livenessProbe } = containerOf(one);
    for (const probe of [startupProbe, readinessProbe, livenessProbe]) {
      const { port = "", path = null } = { ...probe?.httpGet, ...probe?.tcpSocket } as Record<string, string>;
      expect(
        ports.map(({ name }) => name),
        name,
      ).toContain(port);
      if (path === null) continue;
      const answered = ANSWERED.find(
        (known) => known.port === port && known.path === path && ["", name].includes(known.role),
      );
      expect(answered, `${name}: ${port} ${path}`).toBeDefined();
      expect(read(answered?.in ?? "")).toContain(answered?.as);
    }
  }
});

test("a pod has time to finish", () => {
  for (const one of deployments) {
    const { name, lifecycle } = containerOf(one);
    const [, seconds = "0"] = lifecycle?.preStop.exec.command ?? [];
    const grace = one.spec.template.spec.terminationGracePeriodSeconds ?? 0;
    expect(grace, name).toBeGreaterThanOrEqual(ENDS_WITHIN_S + Number(seconds) + 5);
  }
});

test("pods are what the standard `restricted` allows, with the user of the image", () => {
  const [, user, group] = /^USER (\d+):(\d+)$/m.exec(read("Dockerfile")) ?? [];
  for (const one of workloads) {
    expect(one.spec.template.spec, one.metadata.name).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: Number(user),
        runAsGroup: Number(group),
        seccompProfile: { type: "RuntimeDefault" },
      },
    });
    expect(containerOf(one).securityContext).toEqual({
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"] },
    });
  }
});

test("services, budgets and policies select pods that are there", () => {
  const pods = workloads.map((one) => ({
    labels: one.spec.template.metadata.labels,
    ports: (containerOf(one).ports ?? []).map(({ name }) => name),
  }));
  for (const { kind, metadata, spec } of things) {
    if (!["Service", "PodDisruptionBudget", "NetworkPolicy"].includes(kind)) continue;
    const selector = spec.podSelector?.matchLabels ?? spec.selector?.matchLabels ?? spec.selector ?? {};
    const selected = pods.filter(({ labels }) => isWithin(selector as Labels, labels));
    expect(selected.length, metadata.name).toBeGreaterThan(0);
    const ports = [
      ...(spec.ports ?? []).map(({ targetPort }) => targetPort),
      ...(spec.ingress ?? []).flatMap(({ ports }) => ports.map(({ port }) => port)),
    ];
    for (const port of ports)
      expect(
        selected.some((pod) => pod.ports.includes(port)),
        `${metadata.name}: ${port}`,
      ).toBe(true);
  }
  const budgets = things.filter(({ kind }) => kind === "PodDisruptionBudget");
  expect(budgets.map(({ metadata: { name } }) => name).sort()).toEqual(
    deployments.map(({ metadata: { name } }) => name).sort(),
  );
});

test("every port may be connected to", () => {
  const policies = things.filter(({ kind }) => kind === "NetworkPolicy");
  for (const one of deployments) {
    const allowed = policies
      .filter(({ spec }) =>
        isWithin(spec.podSelector?.matchLabels as Labels, one.spec.template.metadata.labels),
      )
      .flatMap(({ spec }) => spec.ingress?.flatMap(({ ports }) => ports.map(({ port }) => port)) ?? []);
    for (const { name } of containerOf(one).ports ?? []) expect(allowed, one.metadata.name).toContain(name);
  }
});

test("secrets that the page makes are those that are read", () => {
  const page = read("docs/deploying.md");
  const made = [...page.matchAll(/create secret (?:generic|tls) ([\w-]+)/g)].map(([, name]) => name);
  const text = files.map(read).join("\n");
  const used = [...text.matchAll(/(?:secretRef: \{ name: |secretName: )([\w-]+)/g)].map(([, name]) => name);
  expect([...new Set(used)].sort()).toEqual([...new Set(made)].sort());
  const literals = [...page.matchAll(/--from-literal=(\w+)=/g)].map(([, name]) => name as string);
  expect(literals.length).toBeGreaterThan(4);
  expect(unknownSettings(literals)).toEqual([]);
});

const hasKubectl = spawnSync("kubectl", ["version", "--client"]).status === 0;

test.skipIf(!hasKubectl)("kustomize builds all of it (skipped without kubectl)", () => {
  for (const folder of [...FOLDERS, dirname("ops/kubernetes/example/kustomization.yaml")]) {
    const { status, stdout, stderr } = spawnSync("kubectl", ["kustomize", join(ROOT, folder)], {
      encoding: "utf8",
    });
    expect(status, stderr).toBe(0);
    const namespaced = stdout.match(/^ {2}namespace: postrider$/gm) ?? [];
    expect(namespaced).toHaveLength((stdout.match(/^kind:/gm) ?? []).length);
  }
});
