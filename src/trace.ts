/**
 * Traces of OpenTelemetry, from a request to the reply of a receiver, across processes: where the spans of a
 * request are kept, its e-mails carry the link to it, and each attempt to deliver one is a span of that
 * trace.
 *
 * Only the API of OpenTelemetry is used. The SDK is the operator's: it decides what is kept, and where it
 * goes. As with counts (meter.ts), traces belong to the process and are not handed down. While they are off
 * nothing of this is loaded.
 */
import type * as OpenTelemetry from "@opentelemetry/api";

type Attributes = Record<string, string | number | boolean | null | undefined>;
type Kind = "request" | "inner" | "delivery";

let api: typeof OpenTelemetry | null = null;
let tracer: OpenTelemetry.Tracer | null = null;

/** Says whether an SDK is there that keeps them. */
export async function openTraces(): Promise<boolean> {
  api = await import("@opentelemetry/api");
  const found = api.trace.getTracer("postrider");
  const start = found.startSpan("postrider start");
  start.end();
  const hasSdk = api.isSpanContextValid(start.spanContext());
  tracer = hasSdk ? found : null;
  return hasSdk;
}

/** Part of a trace, from when it is made until it has ended. */
export class TraceSpan {
  readonly #span: OpenTelemetry.Span;

  constructor(span: OpenTelemetry.Span) {
    this.#span = span;
  }

  /**
   * For who goes on with it in another process, as W3C Trace Context writes it; null: this trace is not kept.
   */
  get link(): string | null {
    const { traceId, spanId, traceFlags } = this.#span.spanContext();
    return traceFlags & 1 ? `00-${traceId}-${spanId}-01` : null;
  }

  begin(name: string): TraceSpan | null {
    if (!api || !tracer) return null;
    const context = api.trace.setSpan(api.ROOT_CONTEXT, this.#span);
    return new TraceSpan(tracer.startSpan(name, {}, context));
  }

  end(attributes: Attributes = {}, error: string | null = null): void {
    this.#span.setAttributes(given(attributes));
    // as SpanStatusCode.ERROR
    if (error !== null) this.#span.setStatus({ code: 2, message: error });
    this.#span.end();
  }
}

type Beginning = {
  kind: Kind;
  /** The link to what caused it. */
  parent: string | null;
  attributes?: Attributes;
  /** In ms, when it is not now. */
  startedAt?: number;
};

/** For callers to whom writing down what a span tells costs more than all else about it. */
export function isTracing(): boolean {
  return tracer !== null;
}

/** null: traces are off. */
export function beginSpan(
  name: string,
  { kind, parent, attributes, startedAt }: Beginning,
): TraceSpan | null {
  if (!api || !tracer) return null;
  const kinds = { request: api.SpanKind.SERVER, inner: api.SpanKind.INTERNAL, delivery: api.SpanKind.CLIENT };
  const options = {
    kind: kinds[kind],
    attributes: given(attributes ?? {}),
    ...(startedAt === undefined ? {} : { startTime: startedAt }),
  };
  const caused = parent === null ? null : contextOf(parent);
  const context = caused ? api.trace.setSpanContext(api.ROOT_CONTEXT, caused) : api.ROOT_CONTEXT;
  return new TraceSpan(tracer.startSpan(name, options, context));
}

const LINK = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/;

/** Of a link that a caller may have written; null where it is none. */
function contextOf(link: string): OpenTelemetry.SpanContext | null {
  const [, traceId, spanId, flags] = LINK.exec(link) ?? [];
  if (!traceId || !spanId || !flags || link.startsWith("ff")) return null;
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
  return api?.isSpanContextValid(context) ? context : null;
}

function given(attributes: Attributes): OpenTelemetry.Attributes {
  return Object.fromEntries(
    Object.entries(attributes).filter(([, value]) => value != null),
  ) as OpenTelemetry.Attributes;
}
