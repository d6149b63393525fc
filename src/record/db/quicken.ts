/**
 * The client's classes of statements and of answers have a static member with a computed name. V8 keeps the
 * constructor of such a class as a dictionary, compiles what makes its instances, throws the result away
 * because it rests on a dictionary, and tries again, ten times a second and forever: a tenth of a core of an
 * api went into that, and each statement and each answer was made by interpreted code, four times as slowly.
 * The constructor of a class that another extends is kept in its fast form, so one is made that does.
 */
export function quicken(one: object): void {
  const Made = one.constructor;
  if (quick.has(Made)) return;
  quick.add(Made);
  const Fast = Made as new () => object;
  void class extends Fast {};
}

const quick = new WeakSet<object>();
