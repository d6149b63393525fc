/**
 * A spreadsheet runs what begins like this, also in the full width of Japanese text. Where a comma is a
 * decimal point it takes semicolons for the ends of cells, and some take tabs and lines for them. Quotes
 * behind these are written twice in the file, and a spreadsheet then takes them for an empty text before the
 * rest.
 */
const FIRST = /^(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])/;
const WITHIN = /([;\t\r\n])(?="*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])/g;

/** A cell of a file of comma-separated values that is text in every spreadsheet. */
export function notFormula(cell: string): string {
  return cell.replace(FIRST, "'").replace(WITHIN, "$1'");
}
