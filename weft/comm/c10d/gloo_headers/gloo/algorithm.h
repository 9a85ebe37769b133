// c10d's header asks for this file and uses nothing of it.
#pragma once
