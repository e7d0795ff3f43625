import { proveAll } from '../kit/promises.js'
import { AREAS } from './areas.js'

proveAll(AREAS.files)
