/** What a plan's price is paid for: so many of these. */
export const intervalUnits = ['day', 'week', 'month', 'year'] as const

export type IntervalUnit = (typeof intervalUnits)[number]
