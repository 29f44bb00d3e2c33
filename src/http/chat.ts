/**
 * Owns the routes of chats that are not kept: chat completions, completions and the Messages API.
 * It must never hold a stage of a chat: those are the same for every form.
 */
import type { ChatService } from '../chat/service.js';
import { type WireFormName, wireForm, wireForms } from '../protocol/wire-forms.js';
import { openRun, type StreamPace } from './chat-run.js';
import type { Gate } from './gate.js';
import { type Handler, type Route, route } from './router.js';

export function chatRoutes(gate: Gate, service: ChatService, pace: StreamPace): Route[] {
  const handler = (form: WireFormName): Handler<unknown> => {
    const { keyHeader } = wireForm(form);
    const bodyBytesMax = () => service.bodyBytesMax(form);
    return gate.guard({ api: 'chat', keyHeader, bodyBytesMax }, async (exchange, caller) => {
      const run = await openRun(exchange, caller, { service, form });
      if (run === null) return null;
      await (run.chat.request.stream ? run.stream(pace) : run.reply());
      return run.used;
    });
  };
  return [
    route('POST', '/v1/chat/completions', handler('chat')),
    route('POST', '/v1/completions', handler('completions')),
    route('POST', '/v1/messages', handler('messages'), wireForms.messages.errors),
  ];
}
