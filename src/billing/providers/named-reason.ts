/**
 * Where a refund has no field for our reference, the reason carries it: read back later, it tells our refunds from those
 * somebody made by hand.
 */
export function reasonNaming(reason: string, reference: string): string {
  return `${reason.slice(0, 100)} [${reference}]`
}

export function referenceIn(reason: string): string | null {
  return /\[([A-Za-z0-9_-]{1,90})\]$/.exec(reason)?.[1] ?? null
}
