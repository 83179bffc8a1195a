/** A line of a table. A line that breaks the rules of quoting has no cells. */
export type Row = {
  /** Where it begins in its file, counted from 1. */
  readonly line: number
  /** The text as it stands there. */
  readonly raw: string
  readonly cells: readonly string[] | undefined
  /** How much of the table is read when this row is. */
  readonly bytes: number
}

/** One table of a file: the file itself, the first sheet of a workbook, or one of the files in a zip. */
export type Table = {
  readonly name: string
  /** What its bytes come to, in the measure that rows tell. */
  readonly size: number
  /** Sheets leave empty cells out at the end of a row; in text a row that is short was cut off. */
  readonly isSheet: boolean
  readonly encoding: string
  /** The first rows, in which a header is looked for. */
  readonly head: readonly Row[]
  rows(): AsyncIterable<Row>
}

/** A file as somebody downloaded it. Its name may tell a day that its rows do not. */
export type Workbook = {
  readonly fileName: string
  readonly tables: readonly Table[]
  /** It is text in UTF-8, packed in nothing. */
  readonly isPlain: boolean
}

/** How far down a header may stand. */
export const headRows = 40

/** Something is the matter with the file as a whole; one sentence tells what. */
export class FileTrouble extends Error {
  override readonly name = 'FileTrouble'
}
