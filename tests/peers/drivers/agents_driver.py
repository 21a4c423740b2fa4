"""Driver that gives a request to agents of LangChain, the OpenHands SDK and mini-swe-agent, with a model behind an address.

Each operation works in a folder until the agent stops, and returns its last message.
"""

import os

from langchain.agents import create_agent
from langchain.agents.middleware import ShellToolMiddleware
from langchain_openai import ChatOpenAI
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import get_config_from_spec
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.sdk.conversation.response_utils import get_agent_final_response
from openhands.tools.terminal import TerminalTool
from pydantic import SecretStr

from tests.peers.drivers.serving import serve

MAX_STEPS = 1_000


def run_langchain(folder: str, address: str, model: str, prompt: str) -> str:
    """Run an agent of LangChain with its shell tool."""
    chat = ChatOpenAI(model=model, base_url=address, api_key=SecretStr("none"))
    agent = create_agent(chat, tools=[], middleware=[ShellToolMiddleware(folder)])
    state = agent.invoke({"messages": [{"role": "user", "content": prompt}]}, {"recursion_limit": 4 * MAX_STEPS})
    return str(state["messages"][-1].content)


def run_mini(folder: str, address: str, model: str, prompt: str) -> str:
    """Run mini-swe-agent as its command does, with the prompts of its configuration."""
    config = get_config_from_spec("mini.yaml")
    settings = {**config["model"], "model_kwargs": {"api_base": address, "api_key": "none"}, "cost_tracking": "ignore_errors"}
    agent = DefaultAgent(
        LitellmModel(model_name=f"openai/{model}", **settings),
        LocalEnvironment(cwd=folder, **config["environment"]),
        system_template=config["agent"]["system_template"],
        instance_template=config["agent"]["instance_template"],
    )
    ended = agent.run(prompt)
    assert ended["exit_status"] == "Submitted", ended
    return next(str(message["content"]) for message in reversed(agent.messages) if message["role"] == "assistant")


def run_openhands(folder: str, address: str, model: str, prompt: str) -> str:
    """Run an agent of the OpenHands SDK with its terminal."""
    llm = LLM(model=f"openai/{model}", base_url=address, api_key=SecretStr("none"))
    agent = Agent(llm=llm, tools=[Tool(name=TerminalTool.name, params={"terminal_type": "subprocess"})])
    conversation = Conversation(agent=agent, workspace=folder, visualizer=None, max_iteration_per_run=MAX_STEPS)
    try:
        conversation.send_message(prompt)
        conversation.run()
        assert conversation.state.execution_status == "finished", conversation.state.execution_status
        return str(get_agent_final_response(conversation.state.events))
    finally:
        conversation.close()


if __name__ == "__main__":
    os.environ["OPENAI_API_KEY"] = "none"
    serve({operation.__name__: operation for operation in (run_langchain, run_mini, run_openhands)})
