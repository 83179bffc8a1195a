import SerializerSelector from '@fastify/fast-json-stringify-compiler'
import type { FastifySerializerCompiler } from 'fastify'

const compile = SerializerSelector()()

/**
 * Compiles the serializer of an answer when the first answer of that kind is given. All of them together take a tenth of a
 * second, which a start would wait for, and most processes give a few kinds only.
 */
export const serializerCompiler: FastifySerializerCompiler<unknown> = (route) => {
  let serialize: ((answer: unknown) => string) | undefined
  return (answer) => {
    serialize ??= compile({ ...route, httpStatus: route.httpStatus ?? '' })
    return serialize(answer)
  }
}
