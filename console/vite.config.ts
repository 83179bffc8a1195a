import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

export default defineConfig({
  base: '/console/',
  plugins: [react()],
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    license: { fileName: 'licenses.md' },
    reportCompressedSize: false,
  },
  // `npm run dev -w console` shows the console of a service that runs beside it.
  server: { proxy: { '/api': 'http://127.0.0.1:8080' } },
})
