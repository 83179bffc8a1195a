import { Compile } from 'typebox/compile'
import { isSecured, resolved } from '../api-document.ts'

/** As much of JSON Schema as our own document uses. */
export type Schema = {
  readonly type?: string | readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | Schema
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly pattern?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly minimum?: number
  readonly maximum?: number
}

export type Field = {
  readonly name: string
  readonly in: 'path' | 'query'
  readonly required: boolean
  readonly schema: Schema
}

type Content = { readonly type: string; readonly fits: (value: unknown) => boolean }

/** One method of one path, as the service's own document tells it. */
export type Operation = {
  /** `POST /api/billing/refund` */
  readonly name: string
  readonly method: string
  readonly path: string
  readonly fields: readonly Field[]
  readonly body: Schema | undefined
  /** Whether a body of these bytes is what the document asks for. */
  readonly takes: (body: unknown) => boolean
  readonly secured: boolean
  readonly scope: string | undefined
  /** By status, or by class as `4XX`. */
  readonly answers: ReadonlyMap<string, Content | undefined>
}

export type Document = {
  readonly paths: Readonly<
    Record<
      string,
      Readonly<
        Record<
          string,
          {
            readonly parameters?: readonly (Field & { schema: Schema })[]
            readonly requestBody?: { readonly content: Readonly<Record<string, { schema: Schema }>> }
            readonly security?: readonly unknown[]
            readonly description?: string
            readonly responses: Readonly<
              Record<string, { readonly content?: Readonly<Record<string, { schema: Schema }>> }>
            >
          }
        >
      >
    >
  >
}

/** Work that goes on after its answer would be taken for what the next requests do. */
const goesOn = ['POST /api/sandbox/demo', 'POST /api/billing/reconciliations']

/** Every other operation of the running service: a route that is added tomorrow is read here tomorrow. */
export async function readOperations(url: string): Promise<Operation[]> {
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document
  return operationsOf(document).filter(({ name }) => !goesOn.includes(name))
}

export function operationsOf(document: Document): Operation[] {
  return Object.entries((resolved(document) as unknown as Document).paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Operation => {
      const body = operation.requestBody?.content['application/json']?.schema
      return {
        name: `${method.toUpperCase()} ${path}`,
        method: method.toUpperCase(),
        path,
        fields: (operation.parameters ?? []).filter((field) => field.in === 'path' || field.in === 'query'),
        body,
        takes: body === undefined ? () => true : checkOf(body),
        secured: isSecured(operation),
        scope: /Needs `([a-z:]+)`\.$/.exec(operation.description ?? '')?.[1],
        answers: new Map(
          Object.entries(operation.responses).map(([status, { content }]) => [status, contentOf(content)]),
        ),
      }
    }),
  )
}

function contentOf(content: Readonly<Record<string, { schema: Schema }>> | undefined): Content | undefined {
  const [type, described] = Object.entries(content ?? {})[0] ?? []
  return type === undefined || described === undefined ? undefined : { type, fits: checkOf(described.schema) }
}

function checkOf(schema: Schema): (value: unknown) => boolean {
  const compiled = Compile(schema as object)
  return (value) => compiled.Check(value)
}
