import type { Web } from './web.ts'

export function envelope(code: number, message: string, tasks: unknown[] = []) {
  return {
    version: '0.1',
    status_code: code,
    status_message: message,
    tasks_count: tasks.length,
    tasks_error: 0,
    tasks,
  }
}

/** The keyword of a task, in which two signs are written otherwise. */
export function keywordOf(task: Readonly<Record<string, unknown>>): string {
  return String(task['keyword'] ?? '')
    .replaceAll('%2B', '+')
    .replaceAll('%25', '%')
}

type Search = { keyword: string; engine: string; device: string; day: string }

/** What a search shows: organic results, and other things between them that are none. */
export function resultOf(web: Web, { keyword, engine, device, day }: Search, depth: number) {
  const urls = web.results({ keyword, engine, device, location: 'KR', day }).slice(0, depth)
  const items = [
    { type: engine === 'naver' ? 'images' : 'local_pack', rank_group: 1, rank_absolute: 1 },
    ...urls.map((url, at) => ({
      type: 'organic',
      rank_group: at + 1,
      rank_absolute: at + 2,
      domain: new URL(url).hostname,
      url,
    })),
  ]
  const se_domain = engine === 'naver' ? 'search.naver.com' : 'google.co.kr'
  return { keyword, type: 'organic', se_domain, device, items_count: items.length, items }
}
