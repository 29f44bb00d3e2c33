"""Drives a running service through crewAI, as its users write it."""

import os
import sys
from pathlib import Path

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["OTEL_SDK_DISABLED"] = "true"
sys.path.insert(0, str(Path(__file__).parent.parent))

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from pydantic import BaseModel, Field
from steps import KEY, URL, run, step

llm = LLM(model="openai/svc-v1-8k", base_url=URL, api_key=KEY)


class Plan(BaseModel):
    goal: str = Field(min_length=1)
    days: int = Field(ge=1)


@tool("get_weather")
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny"


@step
def a_plain_answer():
    assert "Hello you" in llm.call("Hello you")


@step
def a_crew_with_a_structured_result():
    agent = Agent(role="planner", goal="plan", backstory="plans", llm=llm, max_iter=2)
    task = Task(description="Plan a trip.", expected_output="a plan", agent=agent, output_pydantic=Plan)
    result = Crew(agents=[agent], tasks=[task]).kickoff()
    assert isinstance(result.pydantic, Plan), result


run()
