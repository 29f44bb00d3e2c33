/**
 * Owns the type of the drawing library at the address under which the server offers it.
 * It must never be served: a browser gets the library itself.
 */
import uPlot from 'uplot';

export default uPlot;
