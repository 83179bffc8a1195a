import { createHash } from 'node:crypto'
import type { FastifySchema } from 'fastify'
import { type DocumentedRefusal, refuseRequest } from '../refusal.ts'
import { ErrorBody } from './answers.ts'

/** One operation's request and answer, as a running service gave it. */
export type Example = { readonly body?: unknown; readonly status: number; readonly answer?: unknown }

type Json = { [name: string]: unknown }
type Route = {
  readonly method: string | readonly string[]
  readonly config?: { access?: string; once?: true }
}

/** What a route's own schema does not say: who may call it, what HTTP itself may refuse, and the key of a safe retry. */
export function describeRoute(schema: FastifySchema, route: Route): FastifySchema & Json {
  const { access = 'open', once } = route.config ?? {}
  const scope = access === 'open' || access === 'signed' ? undefined : access
  const { errors = [], response, description, ...rest } = schema
  return {
    ...rest,
    description: [description, scope ? `Needs \`${scope}\`.` : accessNotes[access]!]
      .filter(Boolean)
      .join(' '),
    // A token is asked for unless a route says otherwise; the document says so once.
    ...(scope ? {} : { security: [] }),
    ...(once && { headers: KeyHeader }),
    'x-errors': { own: errors, kind: kindOf(route) } satisfies RouteErrors,
    response: Object.fromEntries(
      Object.entries(response ?? {}).filter(([status]) => !/^[45]xx$/i.test(status)),
    ),
  }
}

const accessNotes: Readonly<Record<string, string>> = {
  any: 'Needs any valid token.',
  open: 'Needs no token.',
  signed: 'Needs no token: the provider proves itself.',
}

const KeyHeader = {
  type: 'object',
  properties: {
    'Idempotency-Key': {
      type: 'string',
      description: 'A key of your own for this one request, 1 to 255 visible ASCII characters; kept 30 days',
    },
  },
}

/** What HTTP, access, the limiter and idempotency may refuse, by the kind of route: told once for all routes of a kind. */
const open = refuseRequest.may('validation_failed', 'unsupported_media_type')
const signed = [...open, ...refuseRequest.may('body_too_large')]
const read = [...open, ...refuseRequest.may('unauthorized', 'forbidden', 'cross_site', 'rate_limited')]
const write = [...read, ...refuseRequest.may('invalid_json', 'body_too_large')]
const once = [
  ...write,
  ...refuseRequest.may(
    'invalid_idempotency_key',
    'request_in_progress',
    'answer_erased',
    'idempotency_key_reused',
  ),
]
const refusedByKind = { open, signed, read, write, once }

/** What may go wrong with us. */
const failed: readonly DocumentedRefusal[] = [
  {
    code: 'internal_error',
    status: 500,
    message: 'The service failed to answer; quote the request id when you ask about it.',
  },
  ...refuseRequest.may('service_unavailable'),
]

type Kind = keyof typeof refusedByKind
type RouteErrors = { readonly own: readonly DocumentedRefusal[]; readonly kind: Kind }

function kindOf({ method, config = {} }: Route): Kind {
  if (config.access === 'open' || config.access === 'signed') return config.access
  if (config.once) return 'once'
  return [method].flat().every((one) => one === 'GET' || one === 'HEAD') ? 'read' : 'write'
}

/** The whole document, once every route is in it: what is said more than once stands in `components`. */
export function shareParts(document: Json, examples: Readonly<Record<string, Example>>): Json {
  const schemas = new Map<string, Json>()
  const responses = new Map<string, Json>()
  const shown = new Map<string, Json>()
  const operations = operationsOf(document)
  const parameters = sharedParameters(operations)
  for (const operation of operations) {
    const { 'x-errors': errors, ...rest } = operation
    for (const name of Object.keys(operation)) delete operation[name]
    Object.assign(operation, shareSchemas(rest, schemas))
    operation['parameters'] = (operation['parameters'] as Json[] | undefined)?.map((one) => {
      const name = parameters.get(JSON.stringify(one))
      return name === undefined ? withoutDefault(one) : { $ref: `#/components/parameters/${name}` }
    })
    if (operation['parameters'] === undefined) delete operation['parameters']
    showExample(operation, examples[String(operation['operationId'])], shown)
    tellErrors(operation, errors as RouteErrors, responses)
  }
  shareAnswers(operations, responses)
  shareSchema({ ...ErrorBody, title: 'Error' }, schemas)
  const shared = Object.fromEntries(
    [...parameters].map(([text, name]) => [name, withoutDefault(JSON.parse(text))]),
  )
  return {
    ...document,
    security: [{ bearer: [] }],
    components: {
      ...(document['components'] as Json),
      schemas: sorted(schemas),
      parameters: shared,
      responses: sorted(responses),
      examples: sorted(shown),
    },
  }
}

function operationsOf(document: Json): Json[] {
  return Object.values(document['paths'] as Record<string, Record<string, Json>>).flatMap((path) =>
    Object.values(path),
  )
}

/** Of the parameters of one name, the form that most routes use, and each other form that is worth a name. */
function sharedParameters(operations: readonly Json[]): Map<string, string> {
  const uses = new Map<string, number>()
  for (const one of operations.flatMap((operation) => (operation['parameters'] ?? []) as Json[])) {
    const text = JSON.stringify(shareSchemas(one, new Map()))
    uses.set(text, (uses.get(text) ?? 0) + 1)
  }
  const taken = new Map<string, string>()
  for (const [text, count] of [...uses].sort(([, a], [, b]) => b - a)) {
    const one = JSON.parse(text) as { name: string; in: string }
    const names = new Set(taken.values())
    if (count > 1 && !names.has(one.name)) taken.set(text, one.name)
    else if (count > 1 && !names.has(`${one.name}.${one.in}`) && text.length > leastShared)
      taken.set(text, `${one.name}.${one.in}`)
  }
  return taken
}

// A reference and what it names take that much themselves.
const leastShared = 150

/** A parameter that need not be given is the usual one. */
function withoutDefault({ required, ...parameter }: Json): Json {
  return required === true ? { ...parameter, required } : parameter
}

/** Every schema below that has a title becomes a component of that name. */
function shareSchemas(part: Json, schemas: Map<string, Json>): Json {
  return Object.fromEntries(
    Object.entries(part).map(([name, value]) => {
      // A parameter is shared as a whole, with the description that was its schema's.
      if (name === 'schema')
        return [name, shareSchema('in' in part ? { ...(value as Json), title: undefined } : value, schemas)]
      if (Array.isArray(value))
        return [name, value.map((one) => (isObject(one) ? shareSchemas(one, schemas) : one))]
      return [name, isObject(value) ? shareSchemas(value, schemas) : value]
    }),
  )
}

function shareSchema(schema: unknown, schemas: Map<string, Json>): unknown {
  if (Array.isArray(schema)) return schema.map((one) => shareSchema(one, schemas))
  if (!isObject(schema)) return schema
  const { title, 'x-messages': _messages, 'x-codes': _codes, ...rest } = schema
  const inner = shortened(
    Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, shareSchema(value, schemas)])),
  )
  if (typeof title !== 'string')
    return title === undefined ? inner : { ...inner, title: shareSchema(title, schemas) }
  const known = schemas.get(title)
  if (known && JSON.stringify(known) !== JSON.stringify(inner))
    throw new Error(`Two schemas are called ${title}; give one of them another title.`)
  schemas.set(title, inner)
  return { $ref: `#/components/schemas/${title}` }
}

/** One value is a constant, whose type goes without saying; a pattern that counts says how long a text may be. */
function shortened(schema: Json): Json {
  const { enum: values, type: _, ...rest } = schema
  if (Array.isArray(values) && values.length === 1) return { ...rest, const: values[0] }
  const { minLength, maxLength, ...other } = schema
  return new RegExp(`^\\^\\[[^\\]]+\\]\\{${minLength},${maxLength}\\}\\$$`).test(String(schema['pattern']))
    ? other
    : schema
}

/** Answers of one named schema show the same thing, once. */
function showExample(operation: Json, example: Example | undefined, shown: Map<string, Json>): void {
  for (const [status, response] of Object.entries(operation['responses'] as Record<string, Json>)) {
    if (response['description'] === 'Default Response') response['description'] = done[status] ?? 'OK'
    const content = (response['content'] as Record<string, Json> | undefined)?.['application/json']
    if (!content || !example || String(example.status) !== status) continue
    const name = /([^/]+)Answer$/.exec((content['schema'] as { $ref?: string }).$ref ?? '')?.[1]
    if (name === undefined) {
      content['example'] = example.answer
      continue
    }
    if (!shown.has(name)) shown.set(name, { value: example.answer })
    content['examples'] = { [name]: { $ref: `#/components/examples/${name}` } }
  }
  const body = (operation['requestBody'] as { content?: Record<string, Json> } | undefined)?.content
  const sent = body?.['application/json']
  if (sent && example?.body !== undefined) sent['example'] = example.body
}

/** Answers with one named schema that several operations give under one status. */
function shareAnswers(operations: readonly Json[], responses: Map<string, Json>): void {
  const uses = new Map<string, { told: Json; status: string }[]>()
  for (const { responses: told } of operations as { responses: Record<string, Json> }[]) {
    for (const [status, response] of Object.entries(told)) {
      if ('$ref' in response) continue
      const text = JSON.stringify(response)
      uses.set(text, [...(uses.get(text) ?? []), { told, status }])
    }
  }
  for (const [text, users] of uses) {
    const name = /#\/components\/schemas\/(\w+)Answer"/.exec(text)?.[1]
    const shared = `${name}.${users[0]!.status}`
    if (name === undefined || users.length === 1 || responses.has(shared)) continue
    responses.set(shared, JSON.parse(text))
    for (const { told, status } of users) told[status] = { $ref: `#/components/responses/${shared}` }
  }
}

const done: Readonly<Record<string, string>> = {
  200: 'OK',
  201: 'Made',
  202: 'Begun',
  503: 'Not now.',
}

/**
 * A route's own refusals stand under their status, with whatever else that status may mean there; the rest is told by
 * class. Routes that may say the same share the response.
 */
function tellErrors(operation: Json, { own, kind }: RouteErrors, responses: Map<string, Json>): void {
  const told = operation['responses'] as Record<string, Json>
  const common = [...refusedByKind[kind], ...(kind === 'open' ? [] : failed)]
  const tell = (status: string, shared: string, errors: readonly DocumentedRefusal[]) => {
    const response = errorResponse(errors)
    const isOther = (name: string) =>
      responses.has(name) && JSON.stringify(responses.get(name)) !== JSON.stringify(response)
    // Two areas may say one code in words of their own.
    const name = isOther(shared) ? `${(operation['tags'] as string[])[0]}.${shared}` : shared
    if (isOther(name)) throw new Error(`${name} is said in two ways; say it in one.`)
    responses.set(name, response)
    told[status] = { $ref: `#/components/responses/${name}` }
  }
  for (const status of [...new Set(own.map((one) => one.status))].sort()) {
    const errors = new Map(
      [...own, ...common].filter((one) => one.status === status).map((one) => [one.code, one]),
    )
    const sorted = [...errors.keys()].sort()
    tell(
      String(status),
      nameOf(status, sorted),
      sorted.map((code) => errors.get(code)!),
    )
  }
  tell('4XX', `refused.${kind}`, refusedByKind[kind])
  if (kind !== 'open') tell('5XX', 'failed', failed)
}

/** One code names its response; several would make a name longer than what it saves. */
function nameOf(status: number, codes: readonly string[]): string {
  if (codes.length === 1) return codes[0]!
  return `${status}.${createHash('sha256').update(codes.join()).digest('hex').slice(0, 6)}`
}

function errorResponse(errors: readonly DocumentedRefusal[]): Json {
  const codes = errors.map(({ code }) => code)
  const code = shortened({ enum: codes })
  const these = { properties: { error: { properties: { code } } } }
  return {
    // The sentence that belongs to a code stands in every answer with it; here its first clause does.
    description: codes.length === 1 ? errors[0]!.message.split(/[;:] /)[0] : 'Refused',
    content: { 'application/json': { schema: { allOf: [{ $ref: '#/components/schemas/Error' }, these] } } },
  }
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function sorted(parts: ReadonlyMap<string, Json>): Json {
  return Object.fromEntries([...parts].sort(([a], [b]) => (a < b ? -1 : 1)))
}
