/** A file that the page made, for the downloads of whoever asked for it. */
export function saveFile(name: string, type: string, content: readonly string[]): void {
  const url = URL.createObjectURL(new Blob([...content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
