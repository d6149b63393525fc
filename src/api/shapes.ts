/**
 * What the schemas of answers have in common. Objects are closed: what an answer holds is in the document, or
 * it fails.
 */
import Type from "typebox";

const closed = { additionalProperties: false } as const;
export const EXAMPLE_ID = "01990000-0000-7000-8000-000000000000";
export const EXAMPLE_TIME = "2026-11-20T20:07:38.123Z";

export const Id = Type.String({ format: "uuid", examples: [EXAMPLE_ID] });
export const Time = Type.String({ format: "date-time", examples: [EXAMPLE_TIME] });
export const Text = Type.String();
export const Count = Type.Integer({ minimum: 0 });
/** Whatever JSON there is. */
export const Anything = Type.Unknown();
export const Named = Type.Record(Type.String(), Type.Unknown());

export function orNull<S extends Type.TSchema>(schema: S) {
  return Type.Union([schema, Type.Null()]);
}

export function shape<P extends Type.TProperties>($id: string, properties: P) {
  return Type.Object(properties, { ...closed, $id });
}

/** One that other shapes take apart, or that is used once. */
export function inner<P extends Type.TProperties>(properties: P) {
  return Type.Object(properties, closed);
}

/** `{object, id}`, as most changes answer, with what else they say. */
export function told<P extends Type.TProperties>(object: string, more: P = {} as P) {
  return inner({ object: Type.Literal(object), id: Id, ...more });
}

export function listOf<S extends Type.TSchema>(item: S) {
  return inner({
    object: Type.Literal("list"),
    data: Type.Array(item),
    has_more: Type.Boolean({ description: "whether more items follow" }),
    next_cursor: orNull(
      Type.String({ description: "for `cursor`, to get the next page", examples: [EXAMPLE_ID] }),
    ),
  });
}
