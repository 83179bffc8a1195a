/** What most tests put as a tracker. One page deep, so that a check is one call. */
export function trackerBody(more: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return {
    workspace_id: 'ws',
    site: 'example.com',
    match: 'domain',
    engine: 'google',
    device: 'mobile',
    location: 'KR',
    depth: 10,
    source: 'serpapi',
    every: 'day',
    keywords: 'all',
    ...more,
  }
}
