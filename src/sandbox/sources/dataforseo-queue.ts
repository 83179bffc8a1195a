import { envelope, keywordOf, resultOf } from './dataforseo-answers.ts'
import type { SourceContext, SourceReply, SourceRequest } from './source-sandbox.ts'
import type { OrderedTask, TaskFate } from './task-queue.ts'

const mostPerPost = 100
const deepest: Readonly<Record<string, number>> = { google: 200, naver: 700 }
const usualDepth: Readonly<Record<string, number>> = { google: 10, naver: 15 }

/** The three calls of the queue; undefined: it is none of them. */
export function answerQueue(request: SourceRequest, context: SourceContext): SourceReply | undefined {
  const [, engine = '', call = '', id = ''] =
    /^\/v3\/serp\/(google|naver)\/organic\/(task_post|tasks_ready|task_get)(?:\/advanced\/([^/]+))?$/.exec(
      request.path,
    ) ?? []
  if (call === 'task_post' && request.method === 'POST') return post(engine, request.body, context)
  if (call === 'tasks_ready' && request.method === 'GET') return listReady(engine, context)
  if (call === 'task_get' && request.method === 'GET') return collect(engine, decodeURIComponent(id), context)
  return undefined
}

type Fields = Record<string, unknown>

function post(engine: string, body: unknown, context: SourceContext): SourceReply {
  const tasks = Array.isArray(body) ? (body as Fields[]) : []
  if (tasks.length === 0) return { status: 200, body: envelope(40503, 'POST Data Is Invalid.') }
  const orders: { asks: string; isGood: boolean }[] = []
  const answers = tasks.map((fields, at) => {
    const data = { api: 'serp', function: 'task_post', se: engine, se_type: 'organic', ...fields }
    if (at >= mostPerPost) return { status_code: 40006, status_message: 'Too Many Tasks.', data }
    if (!isSound(engine, fields)) return { status_code: 40501, status_message: 'Invalid Field.', data }
    const fate = fateOf(context)
    const { id } = context.queue.order({ engine, fields, fate, isSlow: context.strikes('slow') })
    const asks = [engine, keywordOf(fields), fields['device'], fields['location_code']].join('\t')
    orders.push({ asks, isGood: fate === 'good' || fate === 'empty' })
    return { id, status_code: 20100, status_message: 'Task Created.', cost: 0.0006, data, result: null }
  })
  return { status: 200, body: envelope(20000, 'Ok.', answers), orders }
}

/** Google wants a place and a language, and Naver knows neither. */
function isSound(engine: string, fields: Fields): boolean {
  const depth = Number(fields['depth'] ?? usualDepth[engine])
  const hasPlace = fields['location_code'] !== undefined || fields['language_code'] !== undefined
  const isWholePlace = fields['location_code'] !== undefined && fields['language_code'] !== undefined
  return (
    keywordOf(fields) !== '' &&
    Number.isInteger(depth) &&
    depth >= 1 &&
    depth <= deepest[engine]! &&
    String(fields['tag'] ?? '').length <= 255 &&
    (engine === 'naver' ? !hasPlace : isWholePlace)
  )
}

function fateOf({ strikes }: SourceContext): TaskFate {
  if (strikes('unreadable')) return 'engine_error'
  if (strikes('empty')) return 'empty'
  return strikes('wrong_device') ? 'wrong_device' : 'good'
}

function listReady(engine: string, { queue }: SourceContext): SourceReply {
  if (queue.isLookTooSoon())
    return { status: 200, isThrottled: true, body: envelope(40202, 'Rate-limit per minute exceeded.') }
  const ready = queue.listReady(engine).map(({ id, fields, orderedAt }) => ({
    id,
    se: engine,
    se_type: 'organic',
    date_posted: stamp(orderedAt),
    tag: fields['tag'] ?? '',
    endpoint_regular: null,
    endpoint_advanced: `/v3/serp/${engine}/organic/task_get/advanced/${id}`,
    endpoint_html: null,
  }))
  const list = { id: 'made-up', status_code: 20000, result_count: ready.length }
  return {
    status: 200,
    body: envelope(20000, 'Ok.', [{ ...list, result: ready.length > 0 ? ready : null }]),
  }
}

function collect(engine: string, id: string, context: SourceContext): SourceReply {
  const { queue } = context
  const task = queue.find(engine, id)
  if (!task) return told({ id, status_code: 40401, status_message: 'Task Not Found.', result: null })
  const data = task.fields
  if (!queue.isRead(task))
    return told({ id, status_code: 40602, status_message: 'Task In Queue.', data, result: null })
  queue.markCollected(task)
  if (task.fate === 'engine_error')
    return told({ id, status_code: 40101, status_message: 'Engine error.', data, result: null })
  if (task.fate === 'empty')
    return told({ id, status_code: 40102, status_message: 'No Search Results.', data, result: null })
  return told({ id, status_code: 20000, cost: 0.0006, result_count: 1, data, result: [read(task, context)] })
}

function told(task: Record<string, unknown>): SourceReply {
  return { status: 200, body: envelope(20000, 'Ok.', [task]) }
}

/** The web as it was when the engine was read, whenever that is collected. */
function read({ engine, fields, fate, readAt }: OrderedTask, { web }: SourceContext) {
  const device = String(fields['device'] ?? 'desktop')
  const other = device === 'mobile' ? 'desktop' : 'mobile'
  const depth = Number(fields['depth'] ?? usualDepth[engine])
  const day = readAt.toISOString().slice(0, 10)
  const search = { keyword: keywordOf(fields), engine, device: fate === 'wrong_device' ? other : device, day }
  return { ...resultOf(web, search, depth), datetime: stamp(readAt) }
}

function stamp(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace('T', ' ')} +00:00`
}
